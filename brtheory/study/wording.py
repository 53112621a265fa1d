"""Numbers as people read them: the same in the terminal, the page and the sentences."""

from brtheory.study.results import Estimate

NONE = "–"


def tokens(value: float | None) -> str:
    """Whole tokens with separators: ``82,148``."""
    return NONE if value is None else f"{value:,.0f}"


def percent(fraction: float | None) -> str:
    """A share: ``21.9 %``."""
    return NONE if fraction is None else f"{100 * fraction:.1f} %"


def ratio(value: float | None) -> str:
    """A ratio: ``0.22``."""
    return NONE if value is None else f"{value:.2f}"


def seconds(value: float | None) -> str:
    """Seconds at three digits: ``0.0312 s``, ``4.20 s``, ``73.1 s``."""
    return NONE if value is None else f"{_digits(value)} s"


def milliseconds(value: float | None) -> str:
    """Seconds as milliseconds: ``31.2 ms``."""
    return NONE if value is None else f"{_digits(1000 * value)} ms"


def microseconds(value: float | None) -> str:
    """Seconds as microseconds: ``0.150 µs``."""
    return NONE if value is None else f"{_digits(1e6 * value)} µs"


def number(value: float | None) -> str:
    """Any metric at four digits with separators."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def gain(estimate: Estimate | None) -> str:
    """A ratio to JSQ as a change: ``+2.1 %``."""
    if estimate is None or estimate.ratio_to_jsq is None:
        return NONE
    return f"{100 * (estimate.ratio_to_jsq - 1):+.1f} %"


def interval(low: float | None, high: float | None, *, digits: int = 0) -> str:
    """``[71,000, 93,000]``; empty where there is no interval."""
    if low is None or high is None:
        return ""
    return f"[{low:,.{digits}f}, {high:,.{digits}f}]"


def half_width(estimate: Estimate) -> float | None:
    """Half the interval of the mean, None where there is none."""
    if estimate.low is None or estimate.high is None:
        return None
    return (estimate.high - estimate.low) / 2


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:#.3g}".rstrip(".")
