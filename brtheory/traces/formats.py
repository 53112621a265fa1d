"""Formats a trace comes in, told by the names of its columns and never by the name of the file.

A known format fixes which columns mean what, the unit of its times and what a failed request looks
like. Anything else is read as generic CSV or JSON Lines by a list of synonyms, most specific first.
Names are compared without case, and with spaces, hyphens and dots as underscores.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from brtheory.errors import InputError

ARRIVAL, PROMPT, OUTPUT, PREFIX = "arrival_s", "prompt_tokens", "output_tokens", "prefix_id"
ROLES = (ARRIVAL, PROMPT, OUTPUT)


@dataclass(frozen=True)
class KnownFormat:
    """One published format.

    Parameters
    ----------
    name
        As shown to the user.
    container
        ``csv`` or ``jsonl``.
    roles
        Role (`ARRIVAL`, `PROMPT`, `OUTPUT`) to normalised column name.
    source
        Who publishes traces in this format, with the licence of the published files.
    marks
        Further columns that must be present to tell this format from others.
    units_per_second
        Unit of a numeric arrival time.
    zero_output_is_failure
        True where 0 output tokens are the format's way of recording a failed request.
    """

    name: str
    container: str
    roles: Mapping[str, str]
    source: str
    marks: tuple[str, ...] = ()
    units_per_second: int = 1
    zero_output_is_failure: bool = False


@dataclass(frozen=True)
class Layout:
    """How to read one file: its format and where each role stands.

    Parameters
    ----------
    format
        Name shown to the user.
    source
        Provenance for `brtheory.traces.schema.Trace.source`.
    fields
        All columns of the header, in order; of the first object for JSON Lines.
    columns
        Role to the column's exact name; `ARRIVAL` and `PREFIX` only where present.
    units_per_second
        Unit of numeric times (times written as dates need none).
    zero_output_is_failure
        See `KnownFormat`.
    """

    format: str
    source: str
    fields: tuple[str, ...]
    columns: Mapping[str, str]
    units_per_second: int = 1
    zero_output_is_failure: bool = False


KNOWN_FORMATS = (
    KnownFormat(
        "azure",
        "csv",
        {ARRIVAL: "timestamp", PROMPT: "contexttokens", OUTPUT: "generatedtokens"},
        "Azure LLM inference trace format (Azure/AzurePublicDataset, CC-BY-4.0)",
    ),
    KnownFormat(
        "burstgpt",
        "csv",
        {ARRIVAL: "timestamp", PROMPT: "request_tokens", OUTPUT: "response_tokens"},
        "BurstGPT format (HPMLL/BurstGPT, CC-BY-4.0)",
        marks=("model",),
        zero_output_is_failure=True,
    ),
    KnownFormat(
        "vidur",
        "csv",
        {ARRIVAL: "arrived_at", PROMPT: "num_prefill_tokens", OUTPUT: "num_decode_tokens"},
        "vidur format (microsoft/vidur, MIT)",
    ),
    KnownFormat(
        "canonical",
        "csv",
        {role: role for role in ROLES},
        "canonical trace file",
    ),
    KnownFormat(
        "qwen-bailian",
        "jsonl",
        {ARRIVAL: "timestamp", PROMPT: "input_length", OUTPUT: "output_length"},
        "Qwen Bailian format (alibaba-edu/qwen-bailian-usagetraces-anon, Apache-2.0)",
        marks=("chat_id",),
    ),
    KnownFormat(
        "mooncake",
        "jsonl",
        {ARRIVAL: "timestamp", PROMPT: "input_length", OUTPUT: "output_length"},
        "Mooncake format (kvcache-ai/Mooncake, Apache-2.0)",
        units_per_second=1000,
    ),
)

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    ARRIVAL: (
        "arrival_s", "arrival_time_s", "arrival_time", "arrived_at", "arrival", "arrival_ts",
        "arrival_ms", "arrival_time_ms", "timestamp_s", "timestamp_ms", "timestamp_us",
        "timestamp_ns", "timestamp", "request_time", "start_time", "datetime", "created_at",
        "time_s", "time_ms", "time", "ts",
    ),
    PROMPT: (
        "prompt_tokens", "num_prompt_tokens", "input_tokens", "num_input_tokens", "context_tokens",
        "contexttokens", "request_tokens", "prefill_tokens", "num_prefill_tokens", "prompt_length",
        "prompt_len", "input_length", "input_len", "prompt_size", "isl",
    ),
    OUTPUT: (
        "output_tokens", "num_output_tokens", "completion_tokens", "num_completion_tokens",
        "generated_tokens", "generatedtokens", "response_tokens", "decode_tokens",
        "num_decode_tokens", "output_length", "output_len", "completion_length",
        "response_length", "token_size", "osl",
    ),
}  # fmt: skip
"""Column names understood in generic files, most specific first; the first that is there wins."""

_UNIT_SUFFIXES = {"_ms": 1_000, "_us": 1_000_000, "_ns": 1_000_000_000}
_NAIVE_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")
_OFFSET_DATE = re.compile(_NAIVE_DATE.pattern + r"(Z|[+-]\d\d:?\d\d)")


def recognise(
    fields: Iterable[str],
    first_row: Iterable[str],
    *,
    where: str,
    container: str,
    columns: Mapping[str, str] | None = None,
) -> Layout:
    """Tell the format of a file by its column names (and Azure's year by its first row).

    Parameters
    ----------
    fields
        Header of a CSV or Parquet file, or keys of the first object of a JSON Lines file.
    first_row
        Values of the first row as text; may be empty.
    where
        File and line of the header, for messages.
    container
        ``csv``, ``jsonl`` or ``parquet``.
    columns
        Role to column name where the user says so; makes the file a generic one.

    Raises
    ------
    InputError
        If prompt or output tokens are nowhere to be found, a column the user named is missing,
        or one that is used is there twice.
    """
    names = tuple(fields)
    layout = _recognised(names, first_row, where=where, container=container, columns=columns or {})
    normal = [_normal(name) for name in names]
    for role, name in layout.columns.items():
        if normal.count(_normal(name)) > 1:
            raise InputError(where, f"one column {name!r} for {role}", normal.count(_normal(name)))
    return layout


def looks_like_columns(fields: Iterable[str]) -> bool:
    """Return whether at least one name means prompt tokens and one means output tokens."""
    names = {_normal(name) for name in fields}
    return all(names & set(SYNONYMS[role]) for role in (PROMPT, OUTPUT))


def _recognised(
    names: tuple[str, ...],
    first_row: Iterable[str],
    *,
    where: str,
    container: str,
    columns: Mapping[str, str],
) -> Layout:
    by_name = {_normal(name): name for name in reversed(names)}
    if columns:
        return _generic(names, by_name, where=where, container=container, columns=columns)
    for known in KNOWN_FORMATS:
        if known.container == container and _fits(known, by_name):
            return _known(known, names, by_name, first_row)
    if container == "parquet" and all(role in by_name for role in ROLES):
        return _known(KNOWN_FORMATS[3], names, by_name, first_row)
    return _generic(names, by_name, where=where, container=container, columns={})


def _normal(name: str) -> str:
    return re.sub(r"[\s.\-]+", "_", name.strip().lower())


def _fits(known: KnownFormat, by_name: Mapping[str, str]) -> bool:
    return all(name in by_name for name in (*known.roles.values(), *known.marks))


def _known(
    known: KnownFormat, names: tuple[str, ...], by_name: Mapping[str, str], row: Iterable[str]
) -> Layout:
    columns = {role: by_name[name] for role, name in known.roles.items()}
    prefix = "hash_ids" if known.container == "jsonl" else PREFIX
    if prefix in by_name and known.name in ("mooncake", "qwen-bailian", "canonical"):
        columns[PREFIX] = by_name[prefix]
    return Layout(
        format=_azure_year(names, row) if known.name == "azure" else known.name,
        source=known.source,
        fields=names,
        columns=columns,
        units_per_second=known.units_per_second,
        zero_output_is_failure=known.zero_output_is_failure,
    )


def _azure_year(names: tuple[str, ...], row: Iterable[str]) -> str:
    """Return the release: 2023 has naive times, 2024 an offset; others have other columns."""
    if [_normal(name) for name in names] != ["timestamp", "contexttokens", "generatedtokens"]:
        return "azure"
    stamp = next(iter(row), "").strip()
    if _OFFSET_DATE.fullmatch(stamp):
        return "azure-2024"
    return "azure-2023" if _NAIVE_DATE.fullmatch(stamp) else "azure"


def _generic(
    names: tuple[str, ...],
    by_name: Mapping[str, str],
    *,
    where: str,
    container: str,
    columns: Mapping[str, str],
) -> Layout:
    found: dict[str, str] = {}
    for role in ROLES:
        name = _given(role, by_name, where=where, columns=columns) or _synonym(role, by_name)
        if name is not None:
            found[role] = name
    for role in (PROMPT, OUTPUT):
        if role not in found:
            expected = f"a column for {role} (or --columns {role}=NAME)"
            raise InputError(where, expected, f"columns {', '.join(names)[:200]}")
    return Layout(
        format=f"generic-{container}",
        source=f"generic {container} file",
        fields=names,
        columns=found,
        units_per_second=_units(found.get(ARRIVAL, "")),
    )


def _given(
    role: str, by_name: Mapping[str, str], *, where: str, columns: Mapping[str, str]
) -> str | None:
    if role not in columns:
        return None
    wanted = columns[role]
    if _normal(wanted) not in by_name:
        got = f"columns {', '.join(reversed(list(by_name.values())))[:200]}"
        raise InputError(where, f"a column {wanted!r} for {role}", got)
    return by_name[_normal(wanted)]


def _synonym(role: str, by_name: Mapping[str, str]) -> str | None:
    return next((by_name[name] for name in SYNONYMS[role] if name in by_name), None)


def _units(name: str) -> int:
    for suffix, units in _UNIT_SUFFIXES.items():
        if _normal(name).endswith(suffix):
            return units
    return 1
