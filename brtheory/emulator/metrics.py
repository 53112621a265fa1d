"""The engines' own metrics under vLLM's names, in Prometheus text format."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class EngineGauges:
    """State of one engine.

    Parameters
    ----------
    engine
        Label ``engine``: the global rank on decode, 0 on a prefill server.
    running, waiting
        Requests decoding or prefilling, and in the engine's own queue.
    kv_usage
        Share of the KV capacity in use, None where it is unlimited.
    prompt_tokens, generated_tokens
        So far.
    finished
        Requests by finish reason, so far.
    """

    engine: str
    running: int
    waiting: int
    kv_usage: float | None
    prompt_tokens: int
    generated_tokens: int
    finished: dict[str, int]


def render_metrics(engines: Sequence[EngineGauges], model: str) -> bytes:
    """Write the metrics of the engines behind one port."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Engines(engines, model))
    return generate_latest(registry)


class _Engines(Collector):
    def __init__(self, engines: Sequence[EngineGauges], model: str) -> None:
        self._engines = engines
        self._model = model

    def collect(self) -> Iterable[Metric]:
        running = self._gauge("num_requests_running", "Requests in the running batch.")
        waiting = self._gauge("num_requests_waiting", "Requests waiting to be scheduled.")
        usage = self._gauge("kv_cache_usage_perc", "KV cache usage, 1 is full.")
        prompt = self._counter("prompt_tokens", "Prefill tokens processed.")
        generated = self._counter("generation_tokens", "Tokens generated.")
        success = self._counter("request_success", "Requests by reason.", "finished_reason")
        for engine in self._engines:
            labels = [engine.engine, self._model]
            running.add_metric(labels, engine.running)
            waiting.add_metric(labels, engine.waiting)
            if engine.kv_usage is not None:
                usage.add_metric(labels, engine.kv_usage)
            prompt.add_metric(labels, engine.prompt_tokens)
            generated.add_metric(labels, engine.generated_tokens)
            for reason, count in sorted(engine.finished.items()):
                success.add_metric([*labels, reason], count)
        return [running, waiting, usage, prompt, generated, success]

    @staticmethod
    def _gauge(name: str, text: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"vllm:{name}", text, labels=["engine", "model_name"])

    @staticmethod
    def _counter(name: str, text: str, *more: str) -> CounterMetricFamily:
        return CounterMetricFamily(f"vllm:{name}", text, labels=["engine", "model_name", *more])
