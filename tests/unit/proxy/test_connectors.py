"""Connectors: what each leg carries, how long blocks live, which modes are refused and why."""

import pytest

from brtheory.errors import InputError
from brtheory.proxy.connectors import (
    REFUSED,
    MissingKvError,
    Source,
    make_connector,
    read_bootstrap,
)


@pytest.mark.parametrize("name", ["nixl", "mooncake-ascend"])
def test_pull_connectors_send_the_documented_request_and_pass_the_answer_on(name: str) -> None:
    connector = make_connector(name)
    assert connector.prefill_params(Source("x")) == {
        "do_remote_decode": True,
        "do_remote_prefill": False,
        "remote_engine_id": None,
        "remote_block_ids": None,
        "remote_host": None,
        "remote_port": None,
    }
    answer = {"do_remote_prefill": True, "remote_block_ids": [1], "tp_size": 8, "new": {"a": 1}}
    assert connector.decode_params(answer, Source("x")) is answer


@pytest.mark.parametrize("answer", [None, {}, "text", []])
def test_a_prefill_answer_without_parameters_is_noticed(answer: object) -> None:
    with pytest.raises(MissingKvError):
        make_connector("nixl").decode_params(answer, Source("x"))


def test_mooncake_names_transfer_engine_and_bootstrap_server_on_both_legs() -> None:
    connector = make_connector("mooncake")
    source = Source("xfer-1", bootstrap_url="http://p:8998", engine_id="e0")
    assert connector.prefill_params(source) == {
        "do_remote_decode": True,
        "do_remote_prefill": False,
        "transfer_id": "xfer-1",
    }
    assert connector.decode_params(None, source) == {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "transfer_id": "xfer-1",
        "remote_bootstrap_addr": "http://p:8998",
        "remote_engine_id": "e0",
    }
    with pytest.raises(MissingKvError):
        connector.decode_params(None, Source("xfer-1"))


def test_leases_are_those_of_the_engines_unless_set() -> None:
    leases = {name: make_connector(name).lease_s for name in ("nixl", "mooncake", "none")}
    assert leases == {"nixl": 30.0, "mooncake": 480.0, "none": None}
    assert make_connector("nixl", lease_s=7).lease_s == 7


def test_only_ascend_needs_min_tokens_and_only_mooncake_a_bootstrap() -> None:
    names = ("nixl", "mooncake-ascend", "mooncake", "none")
    assert [make_connector(name).min_tokens for name in names] == [False, True, False, False]
    assert [make_connector(name).needs_bootstrap for name in names] == [False, False, True, False]


@pytest.mark.parametrize("name", REFUSED)
def test_modes_without_late_binding_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InputError, match="bind late") as caught:
        make_connector(name)
    assert REFUSED[name] in str(caught.value)


def test_unknown_connectors_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="nixl, mooncake-ascend, mooncake or none"):
        make_connector("teleport")


def test_a_bootstrap_answer_gives_engine_ids_by_rank() -> None:
    raw = b'{"0":{"engine_id":"a","worker_addr":{}},"1":{"engine_id":"b"}}'
    assert read_bootstrap(raw) == {0: "a", 1: "b"}


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"x":{"engine_id":1}}', b'{"0":{}}', b"3"])
def test_a_bootstrap_answer_of_another_shape_is_refused(raw: bytes) -> None:
    with pytest.raises(InputError, match="bootstrap"):
        read_bootstrap(raw)
