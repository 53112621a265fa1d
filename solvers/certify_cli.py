"""``brtheory certify``: verify a lower bound without a solver, and without loading NumPy."""

import json
from pathlib import Path
from typing import Annotated

import typer

from brtheory.contracts import read_contract, schema_of
from brtheory.errors import InputError
from brtheory.offline.assignment import read_assignment
from brtheory.offline.instance import Instance, read_instance
from solvers.bounds.steps import admission_steps
from solvers.certificate import CertificateDocument, RefutedError, check
from solvers.work_certificate import WORK_SCHEMA, WorkCertificate, check_work

REFUTED = 1

InputFile = Annotated[
    Path, typer.Argument(help="JSON file (its form: `brtheory schema`).", show_default=False)
]

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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of a line.")
    ] = False,
) -> None:
    """Verify that CERTIFICATE proves its lower bound on the sum of peaks of INSTANCE.

    The check uses integers only and trusts nothing in the file: every window's tree must try all
    replicas, its multipliers must sum up, and the windows' bounds must add to the claim. A
    certificate for every admission claims least steps and sum of peaks instead; both are recomputed
    from the instance. Exit code 0 if the bound is proved, 1 if the certificate is refuted, 2 if a
    file cannot be read.
    """
    problem = read_instance(instance)
    if schema_of(certificate) == WORK_SCHEMA:
        result = _check_work(problem, certificate, admissions)
    else:
        result = _check_windows(problem, certificate, admissions)
    if as_json:
        typer.echo(json.dumps(result))
    elif result["valid"]:
        steps = f", steps >= {result['steps']:,}" if "steps" in result else ""
        typer.echo(f"valid: sum of peaks >= {result['bound']:,} token-steps{steps}")
    else:
        typer.echo(f"refuted: {result['reason']}")
    if not result["valid"]:
        raise typer.Exit(REFUTED)


def _check_windows(problem: Instance, path: Path, admissions: Path | None) -> dict[str, object]:
    steps = admission_steps(problem, None if admissions is None else read_assignment(admissions))
    document = read_contract(path, CertificateDocument)
    reason = None
    try:
        check(problem, steps, document)
    except RefutedError as error:
        reason = str(error)
    return {
        "valid": reason is None,
        "bound": document.bound,
        "reason": reason,
        "windows": len(document.windows),
    }


def _check_work(problem: Instance, path: Path, admissions: Path | None) -> dict[str, object]:
    if admissions is not None:
        raise InputError("--admissions", "none: the claim holds for every admission", admissions)
    claim = read_contract(path, WorkCertificate)
    reason = None
    try:
        check_work(problem, claim)
    except RefutedError as error:
        reason = str(error)
    return {
        "valid": reason is None,
        "bound": claim.sum_peak,
        "reason": reason,
        "steps": claim.steps,
    }
