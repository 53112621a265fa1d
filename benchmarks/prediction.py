"""What predictors say against what happens: ``python -m benchmarks.prediction``.

Each predictor lives through the same runs, online and in the order of time, as
``brtheory predict evaluate`` plays them, on every embedded workload and on the real traces given.
Writes docs/results/prediction.json, the documents of that command without its only timing, so that
the file can be made again to the last digit; ``python -m benchmarks.prediction_report`` fills the
table of docs/prediction.md from it.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from benchmarks.provenance import made_by
from brtheory.cli.main import app
from brtheory.files import write_text_atomic
from brtheory.study.grids.settings import EMBEDDED

OUT = Path("docs/results/prediction.json")
REQUESTS, HORIZON = 6_000, 80
WORKLOADS = tuple(EMBEDDED)
PREDICTORS = ("survival", "exact-match", "learned")
Document = dict[str, Any]


def evaluations(traces: Sequence[Path], *, requests: int) -> Iterator[Document]:
    """The answer of ``brtheory predict evaluate`` for all requests and every predictor."""
    sources = [("--workload", workload) for workload in WORKLOADS]
    sources += [("--trace", str(path)) for path in traces]
    for source, predictor in product(sources, PREDICTORS):
        yield evaluated(source, predictor, requests=requests)


def evaluated(source: tuple[str, str], predictor: str, *, requests: int) -> Document:
    """One answer; the time of a query, which no two runs share, is left out."""
    arguments = ["predict", "evaluate", *source, "--predictor", predictor]
    arguments += ["--requests", str(requests), "--horizon", str(HORIZON), "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    document: Document = json.loads(result.stdout)
    return document | {"query_us_mean": None}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.prediction")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--traces", type=Path, nargs="*", default=[], help="real trace files")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    documents = []
    for document in evaluations(options.traces, requests=options.requests):
        documents.append(document)
        where = f"{document['run']['trace']}, {document['predictor']}"
        print(f"{where}: AUC {document['auc']:.3f}", file=sys.stderr, flush=True)
    text = json.dumps({"provenance": made_by("prediction"), "evaluations": documents}, indent=1)
    write_text_atomic(options.out, text + "\n")


if __name__ == "__main__":
    main()
