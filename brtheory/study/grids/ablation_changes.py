"""What `study ablation` changes, one thing at a time, as data: names, values, and on which router.

A change is a setting of the router (``max_subset=1``), an error of what it is told (``flip_rate``
of a perturbation) or a KV transfer. Everything else stays at its default.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from brtheory.simulation.perturbation import Perturbation
from brtheory.simulation.transfer import TransferDelay

CHANGE, DEFAULT = "change", "default"
BR0, ORACLE, SURVIVAL = "br0", "brh", "brh:predictor=survival"
PREDICTING = (ORACLE, SURVIVAL)
LADDER = ("jsq", "least-tokens", "pool-fifo", BR0, ORACLE, "window")
MOVED = ("jsq", BR0, ORACLE, "window")
"""Routers that are also run with a KV transfer."""
TRANSFER_S, TRANSFER_S_PER_TOKEN = 0.02, 20e-6
"""20 us a token: a cache of 100 kB a token at 5 GB/s."""
WORDS = ("key order", "candidates", "stage 1", "growth")
"""Factors whose values are words."""
LATE, OVERLAPPED = "transfer=late", "transfer=overlapped"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One departure from the defaults.

    Parameters
    ----------
    name
        Value of the axis ``change``; for a setting of the router, as written after its name.
    title
        For people.
    factor
        What is varied: changes of one factor are values of the same thing.
    routers
        The routers that it is tried on.
    setting
        Whether ``name`` is a setting of the router.
    perturbation, transfer
        What else is different in the run.
    """

    name: str
    title: str
    factor: str
    routers: Sequence[str]
    setting: bool = False
    perturbation: Perturbation | None = None
    transfer: TransferDelay | None = None

    def router_text(self, router: str) -> str:
        """The router with the setting, as users write it."""
        return f"{router}:{self.name}" if self.setting else router


@dataclass(frozen=True)
class Group:
    """Changes that are read together."""

    name: str
    title: str
    changes: Sequence[Change]


def change_groups() -> list[Group]:
    """All changes: the tick's, the horizon's, those of prediction, KV transfer."""
    return [
        Group("tick", "settings of the tick", _tick()),
        Group("horizon", "settings of the horizon", _horizon()),
        Group("prediction", "what predictions are worth", _prediction()),
        Group("transfer", "KV transfer", _transfer()),
    ]


def all_changes() -> list[Change]:
    """The changes of all groups in order."""
    return [change for group in change_groups() for change in group.changes]


def _tick() -> list[Change]:
    both = (BR0, ORACLE)
    return [
        *_settings("max_subset", "R_max", (1, 2, 8), both),
        *_settings("greedy_threshold", "S_greedy", (0, 4, 16, 64), both),
        *_settings("key_order", "key order", ("margin-first",), both),
        *_settings("candidate_order", "candidates", ("newest", "largest"), both),
        *_settings("stage1", "stage 1", ("longest",), both),
    ]


def _horizon() -> list[Change]:
    told = (ORACLE,)
    return [
        *_settings("horizon", "H", (0, 5, 20, 40, 160, "auto"), PREDICTING),
        *_settings("overflow_weight", "β", (1, 2, 4, 16), told),
        *_settings("discount", "γ", (0.9, 0.97, 0.99), told),
        *_settings("refresh", "refresh", (10, 80), told),
        *_settings("growth", "growth", ("off",), told),
    ]


def _prediction() -> list[Change]:
    return [
        *_settings("gate", "gate", ("none", 0.25, 0.75), (SURVIVAL,)),
        *(
            Change(
                name=f"noise={sigma:g}",
                title=f"noise σ = {sigma:g}",
                factor="noise",
                routers=(ORACLE,),
                perturbation=Perturbation(prediction_noise=sigma),
            )
            for sigma in (0.5, 1.0)
        ),
        *(
            Change(
                name=f"flips={share:g}",
                title=f"verdicts turned, {100 * share:g} %",
                factor="flips",
                routers=(ORACLE,),
                perturbation=Perturbation(flip_rate=share),
            )
            for share in (0.05, 0.2)
        ),
    ]


def _transfer() -> list[Change]:
    return [
        Change(
            name=name,
            title=title,
            factor="transfer",
            routers=MOVED,
            transfer=TransferDelay(TRANSFER_S, TRANSFER_S_PER_TOKEN, overlap=name == OVERLAPPED),
        )
        for name, title in ((LATE, "after binding"), (OVERLAPPED, "while waiting"))
    ]


def _settings(
    key: str, symbol: str, values: Sequence[int | float | str], routers: Sequence[str]
) -> list[Change]:
    between = ": " if symbol in WORDS else " = "
    return [
        Change(
            name=f"{key}={value}",
            title=f"{symbol}{between}{value}",
            factor=symbol,
            routers=routers,
            setting=True,
        )
        for value in values
    ]
