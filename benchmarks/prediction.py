"""What predictors say against what happens: ``python -m benchmarks.prediction``.

Each predictor lives through the same runs, online and in the order of time, as
``brtheory predict evaluate`` plays them. Writes docs/results/prediction.json, the documents of that
command without its only timing, so that the file can be made again to the last digit.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from brtheory.cli.main import app
from brtheory.files import write_text_atomic
from brtheory.study.provenance import package_root, revision, versions

OUT = Path("docs/results/prediction.json")
REQUESTS, HORIZON = 6_000, 80
WORKLOADS = ("azure-2023-conv", "azure-2024-long-output", "proprietary-surrogate")
PREDICTORS = ("survival", "learned")
Document = dict[str, Any]


def evaluations(requests: int) -> Iterator[Document]:
    """The answer of ``brtheory predict evaluate`` for every workload and predictor."""
    for workload in WORKLOADS:
        for predictor in PREDICTORS:
            yield evaluated(workload, predictor, requests=requests)


def evaluated(workload: str, predictor: str, *, requests: int) -> Document:
    """One answer; the time of a query, which no two runs share, is left out."""
    arguments = ["predict", "evaluate", "--workload", workload, "--predictor", predictor]
    arguments += ["--requests", str(requests), "--horizon", str(HORIZON), "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    document: Document = json.loads(result.stdout)
    return document | {"query_us_mean": None}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.prediction")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    documents = []
    for document in evaluations(options.requests):
        documents.append(document)
        where = f"{document['run']['trace']}, {document['predictor']}"
        print(f"{where}: AUC {document['auc']:.3f}", file=sys.stderr, flush=True)
    provenance = {
        "command": "python -m benchmarks.prediction",
        "revision": revision(package_root()).model_dump(),
        "versions": versions(),
    }
    text = json.dumps({"provenance": provenance, "evaluations": documents}, indent=1)
    write_text_atomic(options.out, text + "\n")


if __name__ == "__main__":
    main()
