"""Names of KV on the wire, per connector."""

import pytest

from brtheory.emulator.connectors import Prefilled, Producer, find_connector, pin_proof
from brtheory.emulator.kv import Handle
from brtheory.errors import InputError

BY = Producer("engine-1", "127.0.0.1", 5600, "http://127.0.0.1:8998")
DONE = Prefilled("req", 33, "length")


@pytest.mark.parametrize("name", ["nixl", "mooncake-ascend"])
def test_the_reply_of_a_pull_connector_is_what_claims_the_kv(name):
    connector = find_connector(name)
    handle = connector.handle_to_pin({"do_remote_decode": True}, DONE, by=BY)
    assert handle == Handle("engine-1", "req")
    reply = connector.reply(handle, DONE, by=BY)
    # One group of KV caches; 33 tokens in blocks of 16: three blocks.
    assert [len(group) for group in reply["remote_block_ids"]] == [3]
    assert (reply["do_remote_prefill"], reply["do_remote_decode"]) == (True, False)
    assert (reply["remote_host"], reply["remote_port"]) == ("127.0.0.1", 5600)
    assert connector.handle_to_claim(reply) == handle
    assert connector.proof(reply) == pin_proof(connector, reply, by=BY)
    tampered = {**reply, "remote_block_ids": [1]}
    assert connector.proof(tampered) != pin_proof(connector, reply, by=BY)


def test_ascend_returns_parameters_only_for_length_capped_requests():
    asked, ended = {"do_remote_decode": True}, Prefilled("req", 33, "stop")
    assert find_connector("mooncake-ascend").handle_to_pin(asked, ended, by=BY) is None
    assert find_connector("nixl").handle_to_pin(asked, ended, by=BY) is not None


def test_upstream_mooncake_answers_null_and_knows_its_transfer_and_address():
    connector = find_connector("mooncake")
    asked = {"do_remote_decode": True, "transfer_id": "xfer-1"}
    handle = connector.handle_to_pin(asked, DONE, by=BY)
    reply = connector.reply(handle, DONE, by=BY)
    assert reply is None
    given = {
        "do_remote_prefill": True,
        "transfer_id": "xfer-1",
        "remote_engine_id": "engine-1",
        "remote_bootstrap_addr": "http://127.0.0.1:8998/",
    }
    assert connector.handle_to_claim(given) == handle == Handle("engine-1", "xfer-1")
    assert connector.proof(given) == pin_proof(connector, reply, by=BY)
    elsewhere = {**given, "remote_bootstrap_addr": "http://127.0.0.1:8999"}
    assert connector.proof(elsewhere) != pin_proof(connector, reply, by=BY)


@pytest.mark.parametrize("name", ["nixl", "mooncake-ascend", "mooncake"])
@pytest.mark.parametrize("asked", [{}, {"do_remote_decode": False, "transfer_id": "x"}])
def test_nothing_is_pinned_unless_remote_decode_is_asked_for(name, asked):
    assert find_connector(name).handle_to_pin(asked, DONE, by=BY) is None


@pytest.mark.parametrize("name", ["nixl", "mooncake-ascend", "mooncake"])
def test_parameters_that_name_no_kv_claim_none(name):
    given = {"do_remote_prefill": True, "remote_engine_id": None, "remote_request_id": 7}
    assert find_connector(name).handle_to_claim(given) is None


def test_a_mooncake_prefill_without_a_transfer_id_pins_nothing():
    assert find_connector("mooncake").handle_to_pin({"do_remote_decode": True}, DONE, by=BY) is None


def test_none_is_no_connector_and_others_are_errors():
    assert find_connector("none") is None
    with pytest.raises(InputError, match="nixl"):
        find_connector("sglang")
