"""What `study tables` says in words: what a pure barrier model can and cannot reproduce."""

from scipy.stats import spearmanr

from brtheory.study import wording
from brtheory.study.choices import BASELINE
from brtheory.study.grid.document import GridDocument
from brtheory.study.grid.plan import ROUTER
from brtheory.study.grid.tables import change
from brtheory.study.grids.paper_figures import AZURE, ORACLE_H80, PAPER, PROPRIETARY, SURVIVAL_H80
from brtheory.study.grids.paper_keys import (
    GROWTH_ROUTERS,
    IMBALANCE,
    SLOTS,
    THROUGHPUT,
    labels_of,
    reported_ratio,
)
from brtheory.study.grids.settings import SETTING
from brtheory.study.results import Finding


def find_agreement(document: GridDocument) -> list[Finding]:
    """What the model reproduces of the paper, and what it cannot."""
    looks = (_ceiling, _order, _shape, _growth, _per_replica)
    findings = [look(document) for look in looks]
    return [finding for finding in findings if finding is not None]


def _ceiling(document: GridDocument) -> Finding | None:
    """What a pure barrier model can and cannot reproduce, in numbers."""
    base = labels_of((PROPRIETARY, 8, BASELINE))
    gains = [
        estimate.ratio
        for router in ("br0", ORACLE_H80, "window")
        if (estimate := document.estimate(THROUGHPUT, labels_of((PROPRIETARY, 8, router))))
        and estimate.ratio
    ]
    ceiling = document.derivation("throughput_ceiling", base)
    bare = document.derivation("throughput_ceiling_without_b0", base)
    if not gains or ceiling is None or bare is None:
        return None
    reported = reported_ratio((PROPRIETARY, 8, ORACLE_H80), THROUGHPUT)
    text = (
        f"Throughput in a pure barrier model at G = 8, on the private trace's surrogate: BR-0, "
        f"BR-H with an oracle and Window give {change(min(gains))} to {change(max(gains))} % "
        f"against JSQ, and no router can give more than {100 * ceiling.value:+.1f} %, because JSQ "
        f"waits no longer than that ({100 * bare.value:+.1f} % if a step had no fixed part at "
        f"all). Reported are {change(reported)} % for BR-H with an oracle"
    )
    if reported - 1 > bare.value:
        text += ": a pure barrier model cannot reproduce that with any step-time constants."
    elif reported - 1 > ceiling.value:
        text += ": a pure barrier model with these step-time constants cannot reproduce that."
    else:
        text += "."
    return Finding(kind="barrier-model", text=text)


def _order(document: GridDocument) -> Finding | None:
    """What it does reproduce: the order of the routers and the size of JSQ's imbalance."""
    parts = []
    for setting in (PROPRIETARY, AZURE):
        pairs = [
            (figures.imbalance_mean_tokens, estimate.mean)
            for key, figures in PAPER.items()
            if key[:2] == (setting, 8)
            and (estimate := document.estimate(IMBALANCE, labels_of(key))) is not None
        ]
        base = document.estimate(IMBALANCE, labels_of((setting, 8, BASELINE)))
        if len(pairs) > 2 and base is not None:
            rank = float(spearmanr(*zip(*pairs, strict=True)).statistic)
            told = PAPER[setting, 8, BASELINE].imbalance_mean_tokens
            parts.append(
                f"on {document.title_of(SETTING, setting)} the rank correlation of reported and "
                f"measured imbalance over the paper's routers is {rank:.2f}, JSQ's imbalance "
                f"{wording.tokens(base.mean)} tokens ({wording.tokens(told)} reported)"
            )
    if not parts:
        return None
    return Finding(kind="order", text=f"Imbalance in the model: {'; '.join(parts)}.")


def _shape(document: GridDocument) -> Finding | None:
    """Ratios of imbalance, reported and measured."""
    parts = []
    for setting in (PROPRIETARY, AZURE):
        for router in ("br0", SURVIVAL_H80, ORACLE_H80):
            estimate = document.estimate(IMBALANCE, labels_of((setting, 8, router)))
            if estimate is not None and estimate.ratio is not None:
                reported = wording.ratio(reported_ratio((setting, 8, router), IMBALANCE))
                title = document.title_of(ROUTER, router)
                parts.append(f"{title} {wording.ratio(estimate.ratio)} ({reported})")
    if not parts:
        return None
    half = len(parts) // 2
    text = (
        f"Imbalance as a ratio to JSQ, measured (reported): on the private trace's surrogate "
        f"{', '.join(parts[:half])}; on Azure's {', '.join(parts[half:])}."
    )
    return Finding(kind="shape", text=text)


def _growth(document: GridDocument) -> Finding | None:
    """How imbalance grows from G = 4 to 16."""
    parts = []
    for router in GROWTH_ROUTERS[:3]:
        ends = [document.estimate(IMBALANCE, labels_of((PROPRIETARY, g, router))) for g in (4, 16)]
        small, large = ends
        if small is None or large is None or not small.mean:
            continue
        told = [PAPER[PROPRIETARY, g, router].imbalance_mean_tokens for g in (4, 16)]
        title = document.title_of(ROUTER, router)
        parts.append(f"{title} {large.mean / small.mean:.1f} ({told[1] / told[0]:.1f})")
    if not parts:
        return None
    text = f"From G = 4 to 16 imbalance grows by a factor, measured (reported): {', '.join(parts)}."
    return Finding(kind="growth", text=text)


def _per_replica(document: GridDocument) -> Finding | None:
    """The reported throughput fits one replica, not eight."""
    del document
    figures = PAPER[PROPRIETARY, 8, BASELINE]
    one = SLOTS / figures.tpot_p95_s
    text = (
        f"The reported {figures.throughput_tokens_per_s:,.0f} tokens/s of JSQ fit one replica: "
        f"{SLOTS} slots at the reported TPOT P95 of {wording.milliseconds(figures.tpot_p95_s)} "
        f"make {one:,.0f} tokens/s. So the table shows changes against JSQ, not tokens/s."
    )
    return Finding(kind="per-replica", text=text)
