"""The proxy beside the direct upstream and other routers: ``python -m benchmarks.proxy``.

CPU of a streamed token and of a request, what a router adds to a request and to a token, memory of
a stream, at 1 to 2,000 streams. Writes proxy.json, proxy.md and proxy.svg into ``--out``. Other
routers are measured in the same run where ``--peer-python`` names the interpreter of an environment
in which they are installed (``pip install vllm-router xpyd-proxy``); where one cannot be run, the
table says why.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.provenance import made_by
from benchmarks.proxy.contestants import CONTESTANTS, OWN_PYTHON, Contestant, NotRunError
from benchmarks.proxy.report import DIRECT, as_table, draw, with_earlier
from benchmarks.proxy.scenarios import (
    FULL,
    REQUESTS,
    SATURATED,
    SMOKE,
    SMOKE_REQUESTS,
    SMOKE_SATURATED,
    Bench,
    measure,
)
from brtheory.files import atomic_path, write_text_atomic
from brtheory.simulation.benchmark.suite import machine

OURS = ("aiohttp", "httptools", "uvloop")
DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- proxy:begin -->\n", "<!-- proxy:end -->"
PEERS = [contestant.name for contestant in CONTESTANTS if not contestant.ours]


def bench_for(*, smoke: bool, most_streams: int | None = None) -> Bench:
    """What to measure, on the first and the last core there are."""
    cores = sorted(os.sched_getaffinity(0))
    bench = Bench(FULL, SATURATED, REQUESTS, core=cores[-1], load_core=cores[0])
    if smoke:
        bench = replace(bench, scenarios=SMOKE, saturated=SMOKE_SATURATED, requests=SMOKE_REQUESTS)
    if most_streams is not None:
        kept = [s for s in bench.scenarios if s.streams <= most_streams]
        bench = replace(bench, scenarios=kept)
    return bench


def run(bench: Bench, peers: Sequence[str], *, peer_python: Path | None) -> dict[str, Any]:
    """Measure the direct way, this proxy and the peers, in turn."""
    load = [os.getloadavg()[0]]
    direct, not_run = measure(None, bench, python=OWN_PYTHON)
    rows = [{"router": DIRECT, **row} for row in direct]
    versions = {}
    for contestant in CONTESTANTS:
        python = OWN_PYTHON if contestant.ours else peer_python
        if not contestant.ours and contestant.name not in peers:
            continue
        try:
            if python is None:
                raise NotRunError("no --peer-python was given")
            mine, failed = measure(contestant, bench, python=python)
        except NotRunError as error:
            not_run[contestant.name] = str(error)
            continue
        versions[contestant.name] = _version(contestant, python)
        rows += [{"router": contestant.name, **row} for row in mine]
        not_run |= {f"{contestant.name}, {what}": why for what, why in failed.items()}
        print(contestant.name, "measured", file=sys.stderr)
    on = {**machine(), **versions, **{n: importlib.metadata.version(n) for n in OURS}}
    load.append(os.getloadavg()[0])
    return {
        "provenance": made_by("proxy"),
        "machine": on,
        "load_average": load,
        "rows": rows,
        "not_run": not_run,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write, draw."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.proxy")
    parser.add_argument("--smoke", action="store_true", help="a few streams: does it work?")
    parser.add_argument("--most-streams", type=int, help="leave larger scenarios out")
    parser.add_argument("--peer", action="append", choices=PEERS, help="repeatable; all if none")
    parser.add_argument("--peer-python", type=Path, help="interpreter of the peers' environment")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    parser.add_argument("--publish", action="store_true", help="put the result into docs/")
    parser.add_argument("--from-json", type=Path, help="a result of before, instead of measuring")
    options = parser.parse_args(arguments)
    if options.from_json is not None:
        document = json.loads(options.from_json.read_text(encoding="utf-8"))
    else:
        bench = bench_for(smoke=options.smoke, most_streams=options.most_streams)
        peers = PEERS if options.peer is None else options.peer
        document = run(bench, peers, peer_python=options.peer_python)
    write_text_atomic(options.out / "proxy.md", as_table(document))
    write(document, result=options.out / "proxy.json", image=options.out / "proxy.svg")
    if options.publish:
        result = DOCS / "results" / "proxy.json"
        document = with_earlier(document, json.loads(result.read_text(encoding="utf-8")))
        write(document, result=result, image=DOCS / "images" / "proxy.svg")
        page = DOCS / "performance-proxy.md"
        write_text_atomic(page, with_table(page.read_text(encoding="utf-8"), document))
    print(options.out / "proxy.md")


def write(document: dict[str, Any], *, result: Path, image: Path) -> None:
    """Write the result as JSON and as a figure."""
    write_text_atomic(result, json.dumps(document, indent=2) + "\n")
    with atomic_path(image) as part, mpl.rc_context({"svg.hashsalt": "brtheory"}):
        draw(document).savefig(part, format="svg", metadata={"Date": None})


def with_table(page: str, document: dict[str, Any]) -> str:
    """The page with its block rendered from a result."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{as_table(document)}{END}{after}"


def _version(contestant: Contestant, python: Path) -> str:
    code = f"import importlib.metadata as m; print(m.version({contestant.distribution!r}))"
    told = subprocess.run(  # noqa: S603  # an interpreter the caller named
        [str(python), "-c", code], capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


if __name__ == "__main__":
    main()
