"""KV leases: claimed once, freed at the end, told apart afterwards."""

from hypothesis import given, settings
from hypothesis import strategies as st

from brtheory.emulator.kv import Claim, Handle, KvLedger

A = Handle("engine", "a")


def test_kv_is_claimed_once_and_then_used():
    ledger = KvLedger(30.0)
    ledger.pin(A, 12, now_s=0.0, parameters={"x": 1})
    assert ledger.pinned("engine") == (1, 12)
    assert ledger.claim(A, 12, now_s=1.0, parameters={"x": 1}) == Claim.CLAIMED
    assert ledger.pinned("engine") == (0, 0)
    assert ledger.claim(A, 12, now_s=1.0, parameters={"x": 1}) == Claim.USED


def test_a_lease_ends_at_its_deadline_and_not_before():
    ledger = KvLedger(30.0)
    ledger.pin(A, 12, now_s=5.0)
    ledger.expire(34.999)
    assert ledger.holds(A)
    assert ledger.next_expiry_s() == 35.0
    assert ledger.claim(A, 12, now_s=35.0) == Claim.EXPIRED
    assert not ledger.holds(A)
    assert ledger.next_expiry_s() is None
    assert ledger.counts["stranded"] == 1


def test_unknown_kv_another_prompt_and_changed_parameters_are_foreign():
    ledger = KvLedger(30.0)
    ledger.pin(A, 12, now_s=0.0, parameters={"x": 1})
    assert ledger.claim(Handle("engine", "b"), 12, now_s=0.0) == Claim.FOREIGN
    assert ledger.claim(Handle("other", "a"), 12, now_s=0.0) == Claim.FOREIGN
    assert ledger.claim(A, 13, now_s=0.0, parameters={"x": 1}) == Claim.FOREIGN
    assert ledger.claim(A, 12, now_s=0.0, parameters={"x": 2}) == Claim.FOREIGN
    assert ledger.claim(A, 12, now_s=0.0, parameters={"x": 1}) == Claim.CLAIMED


def test_a_dead_engine_takes_its_kv_along():
    ledger = KvLedger(30.0)
    ledger.pin(A, 12, now_s=0.0)
    ledger.pin(Handle("other", "a"), 5, now_s=0.0)
    ledger.drop("engine")
    assert ledger.claim(A, 12, now_s=1.0) == Claim.FOREIGN
    assert ledger.pinned("other") == (1, 5)


def test_freed_kv_is_announced():
    ledger, freed = KvLedger(30.0), []
    ledger.on_freed(lambda: freed.append(ledger.pinned("engine")[0]))
    ledger.pin(A, 12, now_s=0.0)
    ledger.pin(Handle("engine", "b"), 3, now_s=0.0)
    ledger.claim(A, 12, now_s=1.0)
    ledger.expire(30.0)
    assert freed == [1, 0]


def test_a_name_may_be_used_again_after_its_kv_is_gone():
    ledger = KvLedger(30.0)
    for _ in range(2):
        ledger.pin(A, 12, now_s=0.0)
        assert ledger.claim(A, 12, now_s=0.0) == Claim.CLAIMED


def test_memory_of_past_handles_is_bounded():
    ledger = KvLedger(1.0, memory=10)
    for i in range(11):
        ledger.pin(Handle("engine", str(i)), 1, now_s=0.0)
    ledger.expire(1.0)
    assert ledger.claim(Handle("engine", "0"), 1, now_s=1.0) == Claim.FOREIGN
    assert ledger.claim(Handle("engine", "1"), 1, now_s=1.0) == Claim.EXPIRED


@given(st.lists(st.tuples(st.sampled_from("pce"), st.integers(0, 4), st.integers(0, 3))))
@settings(deadline=None)
def test_every_pin_is_claimed_stranded_or_still_held(actions):
    ledger, now = KvLedger(5.0), 0.0
    for action, name, wait in actions:
        now += wait
        handle = Handle("engine", str(name))
        if action == "p":
            ledger.expire(now)
            if not ledger.holds(handle):
                ledger.pin(handle, 2, now_s=now)
        elif action == "c":
            ledger.claim(handle, 2, now_s=now)
        else:
            ledger.expire(now)
    counts = ledger.counts
    held, tokens = ledger.pinned("engine")
    assert counts["pinned"] == counts["claimed"] + counts["stranded"] + held
    assert tokens == 2 * held
