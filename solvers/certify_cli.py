"""``brtheory certify``: verify a lower bound without a solver."""

import json
from pathlib import Path
from typing import Annotated

import typer

from brtheory.cli.options import InputFile, Json
from brtheory.contracts import read_contract
from brtheory.offline.assignment import read_assignment
from brtheory.offline.instance import read_instance
from solvers.bounds.steps import admission_steps
from solvers.certificate import CertificateDocument, RefutedError, check

REFUTED = 1

Admissions = Annotated[
    Path | None,
    typer.Option(
        "--admissions",
        help="ASSIGNMENT whose admission steps the bound is for (its replicas do not matter); "
        "without it each request starts at its ready step.",
        exists=True,
        dir_okay=False,
    ),
]


def certify(
    instance: InputFile,
    certificate: InputFile,
    admissions: Admissions = None,
    as_json: Json = False,
) -> None:
    """Verify that CERTIFICATE proves its lower bound on the sum of peaks of INSTANCE.

    The check uses integers only and trusts nothing in the file: every window's tree must try all
    replicas, its multipliers must sum up, and the windows' bounds must add to the claim. Exit code
    0 if the bound is proved, 1 if the certificate is refuted, 2 if a file cannot be read.
    """
    problem = read_instance(instance)
    steps = admission_steps(problem, None if admissions is None else read_assignment(admissions))
    document = read_contract(certificate, CertificateDocument)
    reason = None
    try:
        check(problem, steps, document)
    except RefutedError as error:
        reason = str(error)
    result = {"valid": reason is None, "bound": document.bound, "reason": reason}
    if as_json:
        typer.echo(json.dumps(result | {"windows": len(document.windows)}))
    elif reason is None:
        typer.echo(f"valid: sum of peaks >= {document.bound:,} token-steps")
    else:
        typer.echo(f"refuted: {reason}")
    if reason is not None:
        raise typer.Exit(REFUTED)
