"""Predictors inside the simulator: taught as a proxy would teach them, to the last call."""

from dataclasses import replace

import numpy as np
import pytest

from brtheory.errors import InputError
from brtheory.prediction.evaluation import train_on_start
from brtheory.prediction.model_file import save_model
from brtheory.prediction.prequential import Timeline, play
from brtheory.prediction.registry import ONLINE_PREDICTORS
from brtheory.prediction.training import TrainingSettings
from brtheory.routers.params import HorizonParams
from brtheory.routers.registry import find_router
from brtheory.simulation.arrivals import ClosedArrivals
from brtheory.simulation.engine import Simulation
from brtheory.simulation.metrics import summarise
from brtheory.simulation.run import RunConfig, build_predictor, simulate
from brtheory.simulation.spec import parse_arrivals
from brtheory.simulation.workload import ClusterShape, Lengths, StepTime
from brtheory.traces.schema import Trace
from tests.unit.prediction.recorder import Recorder

HORIZON = 6


@pytest.fixture(scope="module")
def lengths():
    rng = np.random.default_rng(0)
    return Lengths(rng.integers(1, 50, size=300), rng.integers(1, 40, size=300))


def simulated(lengths, predictor, *, longest_stride=None):
    spec = find_router("brh")
    return Simulation(
        lengths,
        spec.build(HorizonParams(horizon=HORIZON), np.random.default_rng(0)),
        shape=ClusterShape(2, 6),
        arrivals=ClosedArrivals(len(lengths), population=20, prefill_s=np.zeros(len(lengths))),
        step_time=StepTime(a0=1e-6, b0=0.01),
        predictor=predictor,
        longest_stride=longest_stride,
    ).run()


@pytest.mark.parametrize("longest_stride", [None, 1])
def test_the_engine_makes_the_calls_of_a_play_of_the_same_run(lengths, longest_stride):
    engine = Recorder()
    record = simulated(lengths, engine, longest_stride=longest_stride)
    timeline = Timeline(lengths.prompt_tokens, lengths.output_tokens, record.admitted_step)
    played = Recorder()
    play(timeline, played, horizon=HORIZON)
    # Requests of one step are admitted in the order of the router's decisions, not of their ids.
    assert per_step(engine.calls) == per_step(played.calls)


def per_step(calls):
    """Runs of calls of one kind, each sorted: the order between kinds stays."""
    runs = []
    for call in calls:
        kind = (
            "start" if call[0] == "admitted" or call[:1] + call[2:3] == ("predict", 0) else call[0]
        )
        if not runs or runs[-1][0] != kind:
            runs.append((kind, []))
        runs[-1][1].append(repr(call))
    return [(kind, sorted(group)) for kind, group in runs]


def test_the_engine_admits_a_request_before_it_asks_about_it(lengths):
    engine = Recorder()
    simulated(lengths, engine)
    for before, call in zip(engine.calls, engine.calls[1:], strict=False):
        if call[0] == "predict" and call[2] == 0:
            assert before == ("admitted", call[1])


def test_every_length_is_learned_once_and_right(lengths):
    engine = Recorder()
    simulated(lengths, engine)
    learned = {call[1]: call[2] for call in engine.calls if call[0] == "finished"}
    assert learned == dict(enumerate(lengths.output_tokens.tolist()))


def trace_of(count, seed):
    """Eight prompts, told apart by their prefix alone, each with answers of its own length."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 8, size=count)
    return Trace(
        "eight prompts",
        "by hand",
        True,
        np.arange(count, dtype=np.float64),
        rng.integers(10, 2000, size=count),
        3 + 7 * kinds,
        kinds,
    )


def config(predictor, **changed):
    settings = {
        "router": "brh",
        "shape": ClusterShape(4, 8),
        "params": HorizonParams(horizon=8),
        "arrivals": parse_arrivals("closed:1.5"),
    }
    return RunConfig(predictor=predictor, **(settings | changed))


@pytest.mark.parametrize("name", ONLINE_PREDICTORS)
def test_runs_are_repeatable_and_do_not_depend_on_the_stride(name):
    trace = trace_of(400, seed=1)
    one, again = (summarise(simulate(trace, config(name))) for _ in range(2))
    stepped = summarise(simulate(trace, config(name), longest_stride=1))
    assert one == again == stepped


def test_prefixes_of_a_trace_reach_the_predictor_rotated_with_their_requests():
    trace = replace(trace_of(400, seed=2), synthetic=False)
    for seed in (0, 3):
        survival = simulate(trace, config("survival", seed=seed))
        blind = simulate(replace(trace, prefix_id=None), config("exact-match", seed=seed))
        seeing = simulate(trace, config("exact-match", seed=seed))
        # Without prefixes exact match is survival; with them it decides otherwise.
        assert (blind.admitted_step == survival.admitted_step).all()
        assert (seeing.admitted_step != survival.admitted_step).any()


def test_a_trained_model_can_be_named(tmp_path):
    trace = trace_of(500, seed=3)
    record = simulate(trace, config("oracle"))
    timeline = Timeline(
        trace.prompt_tokens, trace.output_tokens, record.admitted_step, trace.prefix_id
    )
    model = train_on_start(
        timeline,
        horizon=8,
        share=0.5,
        rng=np.random.default_rng(0),
        settings=TrainingSettings(trees=10),
    )
    path = tmp_path / "model.npz"
    save_model(model, path)
    named = simulate(trace, config(f"learned:{path}"))
    again = simulate(trace, config(f"learned:{path}"))
    untrained = simulate(trace, config("learned"))
    assert (named.admitted_step == again.admitted_step).all()
    assert (named.admitted_step != untrained.admitted_step).any()
    with pytest.raises(InputError, match="horizon: expected 8, the model's, got 9"):
        simulate(trace, config(f"learned:{path}", params=HorizonParams(horizon=9)))


def test_a_router_that_looks_no_step_ahead_asks_nobody():
    trace = trace_of(100, seed=4)
    for name in ONLINE_PREDICTORS:
        near = summarise(simulate(trace, config(name, params=HorizonParams(horizon=0))))
        assert near == summarise(simulate(trace, config("oracle", router="br0", params=None)))


@pytest.mark.parametrize("name", ["psychic", "oracle:x", "survival:model.npz", ""])
def test_unknown_names_are_refused_whatever_the_router(name):
    for router in ("brh", "jsq"):
        with pytest.raises(InputError, match="one of oracle, survival, exact-match, learned"):
            simulate(trace_of(10, seed=5), config(name, router=router, params=None))


def test_learned_needs_to_know_the_horizon():
    spec, outputs = find_router("brh"), np.array([3])
    assert build_predictor(spec, "survival", outputs) is not None
    with pytest.raises(InputError, match="not bound to a fixed horizon"):
        build_predictor(spec, "learned", outputs)
