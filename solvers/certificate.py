"""The plain checker of lower-bound certificates: integers only, no solver, nothing trusted.

The claim: with the given admission steps every assignment has sum_peak >= ``bound``. Disjoint
windows prove it, each by the step bound or by a tree that tries every replica for one request after
the other, up to renaming replicas (a child per label in use, and one new label). At a leaf, integer
multipliers `y[g][j]` >= 0 that sum to D over the replicas on every segment j give

    D * sum_k M(k) >= sum_k sum_g y_g(k) L_g(k) >= sum_i <y_g(i), w_i> + sum_free min_g <y_g, w_i>.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import itemgetter, mul
from typing import Annotated, Any, Literal

from pydantic import Field

from brtheory.contracts import Contract
from brtheory.offline.instance import Instance, instance_to_json

Price = tuple[list[int], list[int]]  # one row's prefix sums of y*lengths and y*ages
Count = Annotated[int, Field(ge=0)]


class WindowDocument(Contract):
    """Steps [start, end), their claimed bound, and a tree (null: the step bound proves it)."""

    start: Count
    end: Count
    bound: Count
    scale: Annotated[int, Field(ge=1, description="D, what the multipliers of a segment sum to.")]
    tree: Annotated[Any, Field(description="{request, children}, {multipliers} or null.")]


class CertificateDocument(Contract):
    """Contract ``brtheory.certificate/1``: a lower bound on sum_peak, and windows that prove it."""

    schema_: Annotated[Literal["brtheory.certificate/1"], Field(alias="schema")]
    subject: Annotated[str, Field(description="Digest of the instance and admission steps.")]
    bound: Count
    windows: list[WindowDocument]
    seal: Annotated[str, Field(description="Digest of everything else.")]


class RefutedError(Exception):
    """The certificate does not prove what it claims; the message says where."""


@dataclass(frozen=True)
class Window:
    """What [start, end) sees of an instance, cut into segments where a request starts or ends.

    ``inside``: id -> (first segment, segment after the last, weight at ``start`` in tokens) of the
    requests that start or end inside; ``background``: the weights of all others, ascending;
    ``lengths``, ``ages``: of each segment its steps, and the sum over them of k - start.
    """

    inside: dict[int, tuple[int, int, int]]
    background: list[int]
    lengths: list[int]
    ages: list[int]


def subject_digest(instance: Instance, steps: Mapping[int, int]) -> str:
    """Digest of all that the claim speaks of; the order of requests does not matter."""
    document = instance_to_json(instance)
    requests: Any = document.pop("requests")
    return _sha256([document, sorted(requests, key=itemgetter("id")), sorted(steps.items())])


def seal_of(document: CertificateDocument) -> str:
    """Digest of a certificate without its seal: catches damage that leaves another true proof."""
    return _sha256(document.model_dump(by_alias=True, exclude={"seal"}))


def check(instance: Instance, steps: Mapping[int, int], document: CertificateDocument) -> int:
    """Verify a certificate; its proved lower bound on sum_peak. Raises RefutedError if it fails."""
    _require(document.subject == subject_digest(instance, steps), "other instance or admissions")
    _require(document.seal == seal_of(document), "the seal does not match the contents")
    total = position = 0
    for claim in document.windows:
        where = f"window {claim.start}..{claim.end}"
        _require(position <= claim.start < claim.end, f"{where}: overlaps or is empty")
        window = window_of(instance, steps, start=claim.start, end=claim.end)
        try:
            proved = window_bound(window, claim.tree, replicas=instance.replicas, scale=claim.scale)
        except RefutedError as error:
            raise RefutedError(f"{where}: {error}") from error
        _require(proved == claim.bound, f"{where}: claims {claim.bound}, proves {proved}")
        total, position = total + proved, claim.end
    _require(total == document.bound, f"claims {document.bound}, its windows sum to {total}")
    return total


def window_of(instance: Instance, steps: Mapping[int, int], *, start: int, end: int) -> Window:
    """Restrict the instance to the steps [start, end)."""
    spans = {r.id: (steps[r.id], steps[r.id] + r.output_tokens) for r in instance.requests}
    active = [r for r in instance.requests if spans[r.id][0] < end and spans[r.id][1] > start]
    clipped = {r.id: (max(spans[r.id][0], start), min(spans[r.id][1], end)) for r in active}
    weight = {r.id: r.prompt_tokens + start - spans[r.id][0] for r in active}
    cuts = sorted({start, end}.union(*clipped.values()))
    at = {cut: j for j, cut in enumerate(cuts)}
    whole = {i for i, span in clipped.items() if span == (start, end)}
    return Window(
        {i: (at[u], at[v], weight[i]) for i, (u, v) in clipped.items() if i not in whole},
        sorted(weight[i] for i in whole),
        [v - u for u, v in pairwise(cuts)],
        [(v - u) * (u + v - 1 - 2 * start) // 2 for u, v in pairwise(cuts)],
    )


def window_bound(window: Window, tree: Any, *, replicas: int, scale: int) -> int:
    """Lower bound on the window's sum of peaks that a tree (None: the step bound) proves."""
    if tree is None:
        _require(scale == 1, "the step bound has no scale")
        return window_step_bound(window, replicas=replicas)
    bounds: list[int] = []
    stack: list[tuple[Any, dict[int, int]]] = [(tree, {})]
    while stack:
        node, labels = stack.pop()
        if isinstance(node, dict) and set(node) == {"multipliers"}:
            y = node["multipliers"]
            bounds.append(leaf_bound(window, y, labels, replicas=replicas, scale=scale))
            continue
        _require(isinstance(node, dict) and set(node) == {"request", "children"}, "an unknown node")
        request, children = node["request"], node["children"]
        known = type(request) is int and request in window.inside and request not in labels
        _require(known, "branches on no request inside, or twice on one")
        choices = min(1 + max(labels.values(), default=-1) + 1, replicas)
        _require(isinstance(children, list) and len(children) == choices, "a child is missing")
        stack.extend((child, {**labels, request: g}) for g, child in enumerate(children))
    return max(0, min(bounds))


def leaf_bound(
    window: Window, rows: Any, labels: Mapping[int, int], *, replicas: int, scale: int
) -> int:
    """Lower bound of one leaf: a row per label, and one that all other replicas share evenly."""
    used = 1 + max(labels.values(), default=-1)
    rest = replicas - used
    _require(isinstance(rows, list) and len(rows) == used + (rest > 0), "a row is missing")
    for row in rows:
        _require(isinstance(row, list) and len(row) == len(window.ages), "a row is cut")
        _require(set(map(type, row)) == {int} and min(row) >= 0, "a multiplier is no integer >= 0")
    _require({*map(sum, zip(*rows, strict=True))} == {scale}, "multipliers do not sum to the scale")
    parts = max(rest, 1)  # all counted in 1/parts, so that an even share is an integer
    prices = [_price(window, row, parts if g < used else 1) for g, row in enumerate(rows)]
    value = _spread(window.background, [(y[-1], z[-1]) for y, z in prices])
    for request, (u, v, weight) in window.inside.items():
        hosts = [prices[labels[request]]] if request in labels else prices
        value += min(weight * (y[v] - y[u]) + z[v] - z[u] for y, z in hosts)
    return -(-value // (parts * scale))


def window_step_bound(window: Window, *, replicas: int) -> int:
    """Sum over segments of the best of work, largest request and pigeonhole, each summed."""
    total = 0
    for j, (steps, ages) in enumerate(zip(window.lengths, window.ages, strict=True)):
        inside = (w for u, v, w in window.inside.values() if u <= j < v)
        weights = sorted([*window.background, *inside])
        bounds = [-(-(sum(weights) * steps + len(weights) * ages) // replicas)]
        for q in range(-(-len(weights) // replicas)):
            lowest = len(weights) - q * replicas - 1
            bounds.append(sum(weights[lowest : lowest + q + 1]) * steps + (q + 1) * ages)
        total += max(bounds)
    return total


def _spread(weights: Sequence[int], lines: Sequence[tuple[int, int]]) -> int:
    """Sum of min over lines (y*weight + z), weights ascending: the lower envelope is concave."""
    prefix = [0, *accumulate(weights)]
    total, stack = 0, [(0, len(weights))] if weights else []
    while stack:
        low, high = stack.pop()
        y, z = min(lines, key=lambda line: line[0] * weights[low] + line[1])
        right = min(y * weights[high - 1] + z for y, z in lines)
        if y * weights[high - 1] + z == right:  # lowest at both ends, so lowest between them
            total += y * (prefix[high] - prefix[low]) + z * (high - low)
        else:
            stack += [(low, (low + high) // 2), ((low + high) // 2, high)]
    return total


def _price(window: Window, row: Sequence[int], times: int) -> Price:
    scaled = [times * y for y in row]
    steps, ages = map(mul, scaled, window.lengths), map(mul, scaled, window.ages)
    return list(accumulate(steps, initial=0)), list(accumulate(ages, initial=0))


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _require(condition: bool, otherwise: str) -> None:  # noqa: FBT001  # an assertion that stays
    if not condition:
        raise RefutedError(otherwise)
