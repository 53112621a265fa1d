"""What the numbers say, in sentences computed from them; nothing is said that was not measured.

Good news and bad alike: known weaknesses (model-and-routers.md section 3) are looked for in every
study and reported when they show.
"""

from collections.abc import Callable

from brtheory.analysis.statistics import Measured, ratio_of_means
from brtheory.study import wording
from brtheory.study.choices import BASELINE
from brtheory.study.results import Estimate, Finding, RouterFacts, StudyDocument

IMBALANCE = "imbalance_mean_tokens"
FEW_TURNS = 8
"""Below so many requests a slot, a run is mostly start and end."""
LONG_WAIT = 10
"""A longest wait of so many medians of the pooled FIFO is called starvation."""


def find(document: StudyDocument) -> list[Finding]:
    """All findings that apply, the most important first."""
    looks: tuple[Callable[[StudyDocument], Finding | None], ...] = (
        _loss,
        _recovered,
        _best,
        _best_unpredicted,
        _horizon,
        _deployed,
        _pool,
        _least_tokens,
        _starvation,
        _short,
        _oracle,
    )
    return [finding for look in looks if (finding := look(document)) is not None]


def best_router(document: StudyDocument, *, predicted: bool) -> RouterFacts | None:
    """The router with the least mean imbalance, among all or among those that predict nothing."""
    allowed = [facts for facts in document.routers if predicted or not predicts(facts)]
    known = [
        (estimate.mean, facts)
        for facts in allowed
        if (estimate := document.estimate(facts.label, IMBALANCE)) is not None
    ]
    return min(known, key=lambda pair: pair[0])[1] if known else None


def predicts(facts: RouterFacts) -> bool:
    """Whether a router is told anything about output lengths, true or estimated."""
    return facts.oracle or facts.predictor is not None


def compare(document: StudyDocument, label: str, *, against: str, metric: str) -> Measured | None:
    """Ratio of two routers' means over the same seeds, None where one is missing."""
    tops, bottoms = document.values(label, metric), document.values(against, metric)
    if not tops or len(tops) != len(bottoms):
        return None
    return ratio_of_means(tops, bottoms)


def _loss(document: StudyDocument) -> Finding | None:
    time = document.estimate(BASELINE, "barrier_time_fraction")
    idle = document.estimate(BASELINE, "barrier_idle_fraction")
    if time is None or idle is None:
        return None
    what = "synthetic workload" if document.trace.synthetic else "trace"
    text = (
        f"On this {what} JSQ loses {wording.percent(time.mean)} of decode time at the barrier: the "
        f"average replica waits that long for the fullest one. Of the part of a step that grows "
        f"with load, {wording.percent(idle.mean)} is idle."
    )
    return Finding(kind="loss", text=text)


def _recovered(document: StudyDocument) -> Finding | None:
    return _gain(document, document.router("br0"), kind="recovered")


def _best(document: StudyDocument) -> Finding | None:
    facts = best_router(document, predicted=True)
    if facts is None or facts.label in (BASELINE, "br0"):
        return None
    return _gain(document, facts, kind="best")


def _best_unpredicted(document: StudyDocument) -> Finding | None:
    overall, facts = best_router(document, predicted=True), best_router(document, predicted=False)
    if facts is None or facts == overall or facts.label in (BASELINE, "br0"):
        return None
    return _gain(document, facts, kind="best-unpredicted")


def _gain(document: StudyDocument, facts: RouterFacts | None, *, kind: str) -> Finding | None:
    if facts is None:
        return None
    imbalance = document.estimate(facts.label, IMBALANCE)
    time = document.estimate(facts.label, "barrier_time_fraction")
    if imbalance is None or time is None or time.ratio_to_jsq is None:
        return None
    lead = {
        "recovered": facts.title,
        "best": f"The least imbalance here is that of {facts.title}: it",
        "best-unpredicted": f"Without any prediction the best is {facts.title}: it",
    }[kind]
    share = 1 - time.ratio_to_jsq
    verb = "gets back" if share >= 0 else "loses a further"
    throughput = document.estimate(facts.label, "throughput_tokens_per_s")
    text = (
        f"{lead} {verb} {wording.percent(abs(share))} of that loss. Its imbalance is "
        f"{_ratio_text(imbalance)} of JSQ's, throughput changes by {wording.gain(throughput)}."
    )
    return Finding(kind=kind, text=text)


def _horizon(document: StudyDocument) -> Finding | None:
    """Long horizons against none: said whenever the default H loses to BR-0."""
    near = next((r for r in document.routers if r.router == "brh" and r.automatic_horizon), None)
    far = document.router("brh:horizon=80") or document.router("brh")
    if far is None or far.automatic_horizon:
        return None
    worse = compare(document, far.label, against="br0", metric=IMBALANCE)
    gap = document.estimate("br0", "steps_between_completions")
    if worse is None or gap is None or worse.value <= 1:
        return None
    text = (
        f"{far.title} is worse than BR-0 here: {_measured_text(worse)} times its imbalance"
        f"{_sureness(worse)}."
    )
    text += _short_outputs(document, far, gap.mean) + _near_text(document, near)
    return Finding(kind="horizon", text=text)


def _short_outputs(document: StudyDocument, far: RouterFacts, gap: float) -> str:
    """Why a horizon can be too long: what is admitted within it is not in the projection."""
    horizon, within = far.params["horizon"], far.outputs_within_horizon
    if within is None or horizon <= gap:
        return ""
    slots = document.conditions.slots
    return (
        f" Outputs are short relative to H: {wording.percent(within)} of requests end within "
        f"{horizon} steps and a replica completes one every {gap:.1f} steps, so by step {horizon} "
        f"about {min(slots, horizon / gap):.0f} of its {slots} slots hold requests that the "
        f"projection cannot know."
    )


def _near_text(document: StudyDocument, near: RouterFacts | None) -> str:
    better = near and compare(document, near.label, against="br0", metric=IMBALANCE)
    if near is None or not better:
        return ""
    word = "better" if better.value < 1 else "no better"
    return (
        f" With H near that time, {near.title} is {word} than BR-0: {_measured_text(better)} "
        f"times its imbalance{_sureness(better)}."
    )


def _deployed(document: StudyDocument) -> Finding | None:
    """What a predictor that can be deployed reaches of what the oracle does."""
    parts = []
    for facts in document.routers:
        if facts.predictor is None or facts.oracle:
            continue
        truth = facts.label.removesuffix(f":predictor={facts.predictor}")
        worse = compare(document, facts.label, against=truth, metric=IMBALANCE)
        if worse is not None:
            told = document.router(truth)
            than = told.title if told else truth
            parts.append(
                f"{facts.title} has {_measured_text(worse)} times the imbalance of {than}"
                f"{_sureness(worse)}"
            )
    if not parts:
        return None
    return Finding(
        kind="deployed", text=f"With a predictor that can be deployed, {'; '.join(parts)}."
    )


def _pool(document: StudyDocument) -> Finding | None:
    """Separates what late binding gains from what the score gains."""
    pool = document.estimate("pool-fifo", IMBALANCE)
    score = compare(document, "br0", against="pool-fifo", metric=IMBALANCE)
    if pool is None or pool.ratio_to_jsq is None or score is None:
        return None
    text = (
        f"Late binding alone (Pooled FIFO) brings imbalance to {_ratio_text(pool)} of JSQ's; "
        f"choosing requests by the F-score brings it from there to {_measured_text(score)} of "
        f"Pooled FIFO's."
    )
    return Finding(kind="pool", text=text)


def _least_tokens(document: StudyDocument) -> Finding | None:
    ratio = compare(document, "br0", against="least-tokens", metric=IMBALANCE)
    if ratio is None or ratio.value <= 1:
        return None
    text = (
        f"BR-0 does not beat Least tokens here: {_measured_text(ratio)} times its imbalance"
        f"{_sureness(ratio)}."
    )
    wait, step = document.estimate("br0", "wait_p50_s"), document.estimate("br0", "tpot_p50_s")
    if wait is not None and step is not None and wait.mean < step.mean:
        text += (
            " Half of the requests wait less than a step, so there is no backlog to choose from, "
            "and BR-0's key (free slots before margin) then costs balance."
        )
    return Finding(kind="least-tokens", text=text)


def _starvation(document: StudyDocument) -> Finding | None:
    """Balance bought with waiting: longest waits against the pooled FIFO's median."""
    fifo = document.estimate("pool-fifo", "wait_p50_s")
    waits = [
        (estimate.mean, facts.title)
        for facts in document.routers
        if facts.family == "pooled"
        and facts.label != "pool-fifo"
        and (estimate := document.estimate(facts.label, "wait_max_s")) is not None
    ]
    if fifo is None or not waits or fifo.mean <= 0:
        return None
    longest, title = max(waits)
    times = longest / fifo.mean
    word = "Starvation shows" if times >= LONG_WAIT else "No starvation shows"
    text = (
        f"{word}: the longest wait of {title} is {wording.seconds(longest)} on average over "
        f"seeds, {times:.1f} times the Pooled FIFO's median wait ({wording.seconds(fifo.mean)}). "
        f"BR-0's and BR-H's guard does not bound a request's wait."
    )
    return Finding(kind="starvation", text=text)


def _short(document: StudyDocument) -> Finding | None:
    conditions = document.conditions
    turns = document.trace.requests / (conditions.replicas * conditions.slots)
    if document.main_scope == "all_steps":
        text = "The loaded window is empty, so averages are over all executed steps."
    elif turns < FEW_TURNS:
        text = (
            f"Only {turns:.1f} requests a slot: the run is mostly start and end; use more "
            f"requests or fewer slots."
        )
    else:
        return None
    return Finding(kind="short", text=text)


def _oracle(document: StudyDocument) -> Finding | None:
    titles = [facts.title for facts in document.routers if facts.oracle]
    if not titles:
        return None
    text = (
        f"{' and '.join(titles)}: told the true output lengths, which no deployed router knows; "
        f"read them as bounds on what prediction can give."
    )
    return Finding(kind="oracle", text=text)


def _ratio_text(estimate: Estimate) -> str:
    ends = wording.interval(estimate.ratio_low, estimate.ratio_high, digits=2)
    return f"{wording.ratio(estimate.ratio_to_jsq)} {ends}".strip()


def _measured_text(measured: Measured) -> str:
    if measured.interval is None:
        return wording.ratio(measured.value)
    ends = wording.interval(measured.interval.low, measured.interval.high, digits=2)
    return f"{wording.ratio(measured.value)} {ends}"


def _sureness(measured: Measured) -> str:
    """Says so where the interval covers 1 or is not known."""
    if measured.interval is None:
        return " (one seed, no interval)" if measured.count == 1 else " (no bounded interval)"
    covers = measured.interval.low <= 1 <= measured.interval.high
    return ", a difference the seeds do not establish" if covers else ""
