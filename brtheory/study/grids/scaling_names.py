"""What `study scaling` calls things: axes, metrics, the law beside the routers."""

REPLICAS = "replicas"
INDEPENDENT = "independent"
METRIC = "imbalance_per_replica_tokens"
THROUGHPUT = "throughput_tokens_per_s"
IDLE = "barrier_idle_fraction"
NORMAL = "normal_excess_tokens"
