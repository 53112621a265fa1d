"""Configurations that make no sense are refused by name."""

import pytest

from brtheory.emulator.config import EmulatorConfig, PrefillSpeed, is_loopback
from brtheory.errors import InputError
from brtheory.simulation.workload import ClusterShape


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ranks_per_endpoint", 3),
        ("ranks_per_endpoint", 0),
        ("burst", 0),
        ("tokens_per_chunk", 0),
        ("prefill", -1),
        ("prefill_kv_capacity", 0),
        ("connector", "lmcache"),
        ("lease_s", 0.0),
        ("on_lost_kv", "ignore"),
        ("time_scale", float("nan")),
        ("keepalive_s", -1.0),
        ("mean_output", 0.5),
        ("max_model_len", 1),
        ("seed", -1),
        ("port_base", 65_530),
    ],
)
def test_a_value_out_of_range_is_named(field, value):
    with pytest.raises(InputError) as caught:
        EmulatorConfig(**{field: value})
    assert caught.value.where == field


def test_prefill_servers_without_a_connector_are_refused():
    with pytest.raises(InputError, match="prefill"):
        EmulatorConfig(connector="none")
    assert EmulatorConfig(connector="none", prefill=0).lease == 0.0


def test_leases_are_the_connectors_unless_given():
    assert EmulatorConfig().lease == 30.0
    assert EmulatorConfig(connector="mooncake").lease == 480.0
    assert EmulatorConfig(lease_s=2.5).lease == 2.5


def test_ports_count_up_from_the_base():
    # Admin, two endpoints of two ranks, two prefills and their bootstraps.
    config = EmulatorConfig(
        shape=ClusterShape(4, 8), ranks_per_endpoint=2, connector="mooncake", port_base=9000
    )
    assert (config.endpoints, config.ports) == (2, 7)
    assert config.port(6) == 9006
    assert EmulatorConfig().port(3) == 0


@pytest.mark.parametrize("speed", [(0.0, 0.0), (float("inf"), 0.0), (1.0, -1.0)])
def test_a_speed_that_is_none_is_refused(speed):
    with pytest.raises(InputError):
        PrefillSpeed(*speed)


def test_loopback_is_told_from_the_rest():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    others = ("0.0.0.0", "::", "10.0.0.1", "example.org", "")
    assert not any(map(is_loopback, others))
