"""The ledger as files: JSON, Markdown, one HTML page, and the solvers' inputs."""

import json
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from latex2mathml.converter import convert
from markupsafe import Markup

from brtheory.files import write_text_atomic
from proofs.ledger import Row

_MARKDOWN = """\
# Statements and verdicts

{{ rows | length }} statements; {{ counts }}. Run on {{ date }}.

| id | claim | verdict | layers | seconds |
|---|---|---|---|---|
{% for row in rows -%}
| {{ row.statement.id }} | {{ row.statement.claim | cell }} | {{ row.verdict }} \
| {{ row.layers | map(attribute="summary") | join("; ") }} | {{ "%.1f" | format(row.seconds) }} |
{% endfor %}"""

_HTML = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Statements and verdicts</title><style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem }
table { border-collapse: collapse } th, td { padding: .4rem .6rem; text-align: left;
vertical-align: top; border-bottom: 1px solid #ccc } math { font-size: 1.05em }
.proved { color: #05621b } .checked { color: #0b4f8a } .refuted { color: #7a3e00 }
.open { color: #a00000; font-weight: bold } small { color: #555 }
@media (max-width: 45rem) { thead { display: none } tr, td { display: block }
tr { border-bottom: 1px solid #ccc; padding: .6rem 0 }
td { border: 0; padding: .1rem 0; overflow-wrap: anywhere } td:last-child::after { content: " s" } }
@media print { tr { break-inside: avoid } thead { display: table-header-group } }
</style></head><body>
<h1>Statements and verdicts</h1>
<p>{{ rows | length }} statements; {{ counts }}. Run on {{ date }}.</p>
<table><thead><tr><th>id</th><th>claim</th><th>verdict</th><th>layers</th><th>seconds</th></tr>
</thead><tbody>
{% for row in rows -%}
<tr id="{{ row.statement.id }}"><td>{{ row.statement.id }}</td>
<td><b>{{ row.statement.title }}.</b> {{ row.statement.claim }}<br>\
{{ row.statement.latex | formula }}\
{% for text in row.statement.hypotheses %}<br><small>needs: {{ text }}</small>{% endfor %}\
<br><small>source: {{ row.statement.source }}</small></td>
<td class="{{ row.verdict }}">{{ row.verdict }}</td>
<td>{% for layer in row.layers %}{{ layer.summary }}<br><small>{{ layer.scope }}\
{% if layer.outcome %}: {{ layer.outcome.detail }}{% if layer.outcome.witness %}; \
{{ layer.outcome.witness }}{% endif %}{% endif %}</small><br>{% endfor %}</td>
<td>{{ "%.1f" | format(row.seconds) }}</td></tr>
{% endfor -%}
</tbody></table></body></html>
"""


def to_json(rows: Sequence[Row]) -> str:
    """The ledger as a JSON list."""
    return json.dumps([row.to_json() for row in rows], indent=1, ensure_ascii=False) + "\n"


def to_markdown(rows: Sequence[Row], *, date: str) -> str:
    """The ledger as a Markdown table."""
    return _render(_MARKDOWN, rows, date=date, escape=False)


def to_html(rows: Sequence[Row], *, date: str) -> str:
    """The ledger as one self-contained HTML page."""
    return _render(_HTML, rows, date=date, escape=True)


def write_ledger(rows: Sequence[Row], directory: Path, *, date: str) -> list[Path]:
    """Write ledger.json, ledger.md, ledger.html and smt2/<id>/<goal>.smt2; return the paths."""
    files = {
        "ledger.json": to_json(rows),
        "ledger.md": to_markdown(rows, date=date),
        "ledger.html": to_html(rows, date=date),
    }
    for row in rows:
        for layer in row.layers:
            artifacts = () if layer.outcome is None else layer.outcome.artifacts
            files |= {f"smt2/{row.statement.id}/{_slug(name)}": text for name, text in artifacts}
    for name, text in files.items():
        write_text_atomic(directory / name, text)
    return [directory / name for name in files]


def verdict_counts(rows: Sequence[Row]) -> str:
    """E.g. '30 proved, 7 checked'."""
    verdicts = [str(row.verdict) for row in rows]
    kinds = sorted(set(verdicts), key=("proved", "checked", "refuted", "open").index)
    return ", ".join(f"{verdicts.count(kind)} {kind}" for kind in kinds)


def _render(template: str, rows: Sequence[Row], *, date: str, escape: bool) -> str:
    environment = Environment(autoescape=escape, undefined=StrictUndefined)  # noqa: S701  # Markdown
    environment.filters["formula"] = _mathml
    environment.filters["cell"] = lambda text: text.replace("|", "\\|")
    page = environment.from_string(template)
    return page.render(rows=rows, counts=verdict_counts(rows), date=date)


def _mathml(latex: str) -> Markup:
    # Browsers draw MathML themselves. The converter lacks \arg, and few fonts have its \setminus.
    known = latex.replace(r"\arg", r"\operatorname{arg}\,").replace(r"\setminus", r"\backslash")
    return Markup(convert(known))  # noqa: S704  # the statements' own formulas


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in ".-" else "_" for c in name)
