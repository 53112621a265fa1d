"""Pages of the site that are made, not written: home, results, project, commands, schemas, modules.

MkDocs runs this file; what it writes exists only in the built site.
"""

import ast
import re
from importlib.metadata import entry_points
from pathlib import Path

import mkdocs_gen_files
from typer.testing import CliRunner

from brtheory.cli.main import app

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG")
PACKAGES = ("brtheory", "solvers", "proofs")
HELP_COLUMNS = "96"
ELSEWHERE = {"RESULTS.md": "results.md", "notebooks": "notebooks/start_here.md"}
"""Links of pages at the root of the checkout to what has another place in the site."""
OUTSIDE = "](../"
BLOCK = re.compile(r"[*+-] |\d+\. |\||#|<!--")
"""How lines begin that are no prose."""
LINK = re.compile(r"\]\((?!https?:|#)([^)]+)\)")


def write(path: str, text: str) -> None:
    """Add a page to the site."""
    with mkdocs_gen_files.open(path, "w") as page:
        page.write(text)


def spaced(text: str) -> str:
    """Tables and lists right below a line of prose, apart as MkDocs needs them."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        above = lines[-1] if lines else ""
        prose = bool(above) and not above[0].isspace() and not BLOCK.match(above)
        if not fenced and prose and BLOCK.match(line):
            lines.append("")
        lines.append(line)
        fenced ^= line.startswith("```")
    return "\n".join(lines) + "\n"


def relinked(text: str, *, up: str) -> str:
    """Links of a page at the root of the checkout, as they are ``up`` from the docs folder."""

    def target(found: re.Match[str]) -> str:
        path = found[1]
        if path.removesuffix(".md") in PROJECT:
            return f"]({up}project/{path})"
        return f"]({up}{ELSEWHERE.get(path, path.removeprefix('docs/'))})"

    return LINK.sub(target, text)


def home() -> None:
    """The README, the results, and the project's pages beside them."""
    for page, source in (("index.md", "README.md"), ("results.md", "RESULTS.md")):
        write(page, spaced(relinked((ROOT / source).read_text(encoding="utf-8"), up="")))
    for name in PROJECT:
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        write(f"project/{name}.md", spaced(relinked(text, up="../")))


def documents() -> None:
    """Documents as the site needs them, links to what is outside docs included."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        text = spaced(path.read_text(encoding="utf-8"))
        write(path.name, relinked(text.replace(OUTSIDE, "]("), up="") if OUTSIDE in text else text)


def commands() -> None:
    """What ``--help`` says of every command."""
    lines = ["# Command line", "", *_help([])]
    for name in sorted(entry_points(group="brtheory.commands").names):
        lines += ["", f"## brtheory {name}", "", *_help([name])]
        for part in _subcommands(name):
            lines += ["", f"### brtheory {name} {part}", "", *_help([name, part])]
    write("reference/commands.md", "\n".join(lines) + "\n")


def schemas() -> None:
    """Every published JSON Schema."""
    lines = [
        "# JSON Schemas",
        "",
        "Printed by `brtheory schema`; see [contracts](../contracts.md).",
    ]
    for path in sorted((ROOT / "docs" / "schemas").glob("*.schema.json")):
        text = path.read_text(encoding="utf-8").rstrip()
        lines += ["", f"## {path.name.removesuffix('.schema.json')}", ""]
        lines += [f"[{path.name}](../schemas/{path.name})", "", "```json", text, "```"]
    write("reference/schemas.md", "\n".join(lines) + "\n")


def modules() -> None:
    """A page for each module, from its docstrings, and the list of them."""
    lines = ["# Modules", ""]
    for package in PACKAGES:
        lines += [f"## {package}", ""]
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            summary = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            if name.rsplit(".", 1)[-1].startswith("__") or not summary:
                continue
            write(f"reference/{name}.md", f"::: {name}\n")
            lines.append(f"* [`{name}`]({name}.md): {summary.splitlines()[0]}")
        lines.append("")
    write("reference/modules.md", "\n".join(lines))


def _help(arguments: list[str]) -> list[str]:
    result = CliRunner().invoke(
        app, [*arguments, "--help"], env={"COLUMNS": HELP_COLUMNS, "TERM": "dumb"}
    )
    return ["```text", result.output.strip("\n"), "```"]


def _subcommands(name: str) -> list[str]:
    (entry,) = entry_points(group="brtheory.commands", name=name)
    loaded = entry.load()
    return sorted(
        command.name or command.callback.__name__.replace("_", "-")
        for command in getattr(loaded, "registered_commands", [])
    )


home()
documents()
commands()
schemas()
modules()
