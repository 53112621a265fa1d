"""Sentences follow the numbers: each appears exactly when it is true."""

from brtheory.study.findings import best_router, find
from tests.unit.study.samples import document, metrics


def study(**imbalance):
    """Two seeds a router, 2 % apart."""
    names = {"brh80": "brh:horizon=80", "near": "brh:horizon=auto", "fifo": "pool-fifo",
             "tokens": "least-tokens"}  # fmt: skip
    windows = {
        names.get(key, key): [metrics(value), metrics(value + value // 50)]
        for key, value in imbalance.items()
    }
    return document(windows)


def texts(made):
    return {finding.kind: finding.text for finding in find(made)}


def test_a_long_horizon_that_loses_is_named_with_its_cause_and_cure():
    said = texts(study(jsq=10_000, br0=1000, brh80=1500, near=500))
    assert "BR-H (oracle, H = 80) is worse than BR-0 here: 1.50" in said["horizon"]
    # G * steps / requests = 2 * 10 / 5 = 4 steps between completions: both slots change hands.
    assert "90.0 % of requests end within 80 steps" in said["horizon"]
    assert "completes one every 4.0 steps" in said["horizon"]
    assert "about 2 of its 2 slots" in said["horizon"]
    assert "BR-H (oracle, H = 3) is better than BR-0: 0.50" in said["horizon"]


def test_a_long_horizon_that_wins_is_left_in_peace():
    assert "horizon" not in texts(study(jsq=10_000, br0=1000, brh80=900, near=500))


def test_a_near_horizon_that_does_not_help_is_not_praised():
    said = texts(study(jsq=10_000, br0=1000, brh80=1500, near=1200))
    assert "is no better than BR-0: 1.20" in said["horizon"]


def test_differences_within_the_noise_are_called_that():
    made = document(
        {
            "jsq": [metrics(10_000), metrics(9000)],
            "br0": [metrics(1000), metrics(2000)],
            "brh:horizon=80": [metrics(2100), metrics(1000)],
        }
    )
    said = texts(made)["horizon"]
    assert "do not establish" in said or "no bounded interval" in said


def test_the_loss_is_jsqs_share_of_step_time():
    # a0 * I / G / (b0 * steps + a0 * sum of peaks) = 0.001 * 50 / 2 / (0.5 * 10 + 0.001 * 100).
    said = texts(document({"jsq": [metrics(5)]}))
    assert f"JSQ loses {100 * 0.025 / 5.1:.1f} % of decode time" in said["loss"]
    assert "this trace" in said["loss"]
    assert (
        "this synthetic workload" in texts(document({"jsq": [metrics(5)]}, synthetic=True))["loss"]
    )


def test_what_br0_gets_back_is_one_minus_the_ratio_of_losses():
    said = texts(study(jsq=10_000, br0=2500))
    assert said["recovered"].startswith("BR-0 gets back 75.0 % of that loss")
    assert "BR-0 loses a further 50.0 %" in texts(study(jsq=10_000, br0=15_000))["recovered"]


def test_losing_to_least_tokens_is_said():
    assert "least-tokens" in texts(study(jsq=100, br0=60, tokens=50))
    assert "least-tokens" not in texts(study(jsq=100, br0=40, tokens=50))


def test_lack_of_a_backlog_is_blamed_only_where_requests_do_not_wait():
    def losing(wait):
        made = {"jsq": [metrics(100)], "least-tokens": [metrics(50)]}
        return texts(document({**made, "br0": [metrics(60, wait_p50=wait)]}))["least-tokens"]

    # A step takes 0.020 s.
    assert "no backlog" in losing(0.01)
    assert "no backlog" not in losing(1.0)


def test_starvation_is_told_from_none():
    def waiting(longest):
        return texts(
            document(
                {
                    "pool-fifo": [metrics(9)],
                    "jsq": [metrics(9)],
                    "br0": [metrics(3, wait_max=longest)],
                }
            )
        )["starvation"]

    assert waiting(30.0).startswith("Starvation shows: the longest wait of BR-0 is 30.0 s")
    assert "30.0 times" in waiting(30.0)
    assert waiting(3.0).startswith("No starvation shows")


def test_an_empty_window_falls_back_to_all_steps_and_says_so():
    made = document({"jsq": [None, None], "br0": [None, None]})
    assert made.main_scope == "all_steps"
    assert "loaded window is empty" in texts(made)["short"]
    assert made.estimate("br0", "imbalance_mean_tokens").mean == 7.0


def test_few_requests_a_slot_are_warned_about():
    # 20 requests on 2 x 2 slots.
    few = document({"jsq": [metrics(9)]}, requests=20)
    assert "Only 5.0 requests a slot" in texts(few)["short"]
    assert "short" not in texts(document({"jsq": [metrics(9)]}, requests=32))


def test_the_best_without_an_oracle_is_never_one_with():
    made = study(jsq=100, br0=50, near=20)
    assert best_router(made, predicted=True).label == "brh:horizon=3"
    assert best_router(made, predicted=False).label == "br0"
