"""A description says what is unusual, and its picture shows it."""

from pathlib import Path

import numpy as np
import pytest

from brtheory.errors import InputError
from brtheory.traces.describe import Description, describe_trace
from brtheory.traces.figure import description_figure, save_figure
from brtheory.traces.schema import Trace

ROWS = 1000


def described(
    arrival: np.ndarray | None = None,
    prompt: np.ndarray | None = None,
    output: np.ndarray | None = None,
) -> Description:
    random = np.random.default_rng(0)
    return describe_trace(
        Trace(
            "t$1",
            "test",
            True,
            np.arange(float(ROWS)) if arrival is None else arrival,
            random.integers(10, 90, ROWS) if prompt is None else prompt,
            random.integers(10, 90, ROWS) if output is None else output,
        ),
        format_name="test",
    )


def test_times_too_close_together_for_a_rate_have_none() -> None:
    # 999 / 5e-324 is above the largest float.
    assert described(arrival=np.append(np.zeros(ROWS - 1), 5e-324)).rate_per_s is None


def test_an_ordinary_trace_is_not_unusual() -> None:
    assert described().unusual == ()


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"arrival": np.repeat(np.arange(200.0) * 3, 5)}, "coarse: different ones are 3 s apart"),
        ({"arrival": np.repeat(np.arange(200.0), 5)}, "80% of the arrivals share their time"),
        ({"arrival": np.append(np.arange(999.0), 1e6)}, "arrivals are bursty: gaps have a CV of"),
        ({"output": np.r_[np.full(300, 512), 1:701]}, "30% of the outputs have exactly 512 tokens"),
        ({"output": np.resize([1014, 1052], ROWS)}, "outputs are almost constant"),
        ({"prompt": np.r_[np.full(980, 5), np.full(20, 500)]}, "prompts have a heavy tail"),
    ],
)  # fmt: skip
def test_oddities_are_named(columns: dict[str, np.ndarray], sentence: str) -> None:
    assert any(sentence in line for line in described(**columns).unusual)


def test_what_is_undetermined_is_none() -> None:
    at_once = described(arrival=np.zeros(ROWS), output=np.ones(ROWS, np.int64))
    assert (at_once.rate_per_s, at_once.interarrival_cv, at_once.correlation) == (None, None, None)
    assert at_once.time_span_s == 0.0


def test_the_picture_has_three_titled_panels_that_hold_every_request() -> None:
    description = described()
    figure = description_figure(description)
    assert "synthetic" in figure.get_suptitle()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["Prompt tokens", "Output tokens", "Arrivals over time"]
    for axes in figure.axes[:2]:
        assert sum(axes.patches[0].get_data().values) == ROWS
    rates, edges, _ = figure.axes[2].patches[0].get_data()
    assert (rates * np.diff(edges)).sum() == pytest.approx(ROWS)


@pytest.mark.parametrize("name", ["a.svg", "a.png"])
def test_pictures_of_extreme_traces_can_be_saved(tmp_path: Path, name: str) -> None:
    one = Trace("one", "test", False, np.zeros(1), np.ones(1, np.int64), np.ones(1, np.int64))
    path = tmp_path / name
    save_figure(description_figure(describe_trace(one, format_name="test")), path)
    assert path.stat().st_size > 1000


def test_other_kinds_of_pictures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.svg or \.png"):
        save_figure(description_figure(described()), tmp_path / "a.pdf")
    assert list(tmp_path.iterdir()) == []
