"""Studies on Dask: the same results on any workers, one killed in the middle, clear refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from brtheory.errors import BrtheoryError, InputError
from brtheory.study import dask_pool
from brtheory.study.cells import make_job
from brtheory.study.supply import trace_digest
from brtheory.study.tasks import RunTask
from tests.cli_runner import run_cli
from tests.conftest import ROOT
from tests.unit.study.samples import run_config, small_trace

STUDY = (
    "study", "--replicas", "4", "--slots", "8", "--requests", "1200", "--seeds", "4",
    "--routers", "jsq,br0,brh:horizon=8", "--scaling", "none",
)  # fmt: skip
PATIENCE_S = 400


def environment():
    """Ours, without the configuration of another Dask; what is gone is given up soon."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith("DASK_")}
    return ours | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}


@contextmanager
def process(*arguments, stderr=subprocess.DEVNULL):
    """A process that does not outlive the test."""
    started = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=stderr,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def cluster(folder):
    """The address of a real scheduler, its process and those of its two workers."""
    file = folder / "scheduler.json"
    serve = ("-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    work = ("-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard")
    with process(*serve, "--no-dashboard", "--scheduler-file", file) as scheduler:
        wait_until(lambda: file.exists() and file.read_text().strip())
        address = json.loads(file.read_text())["address"]
        with process(*work, address) as first, process(*work, address) as second:
            yield address, scheduler, [first, second]


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def results(out):
    """A study's results without what differs between equal ones."""
    document = json.loads((out / "results.json").read_text(encoding="utf-8"))
    return document.pop("provenance"), document


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path):
    """Two workers, one killed by SIGKILL once cells arrive: the numbers are a local run's."""
    out, local, errors = tmp_path / "dask", tmp_path / "local", tmp_path / "errors"
    with cluster(tmp_path) as (address, _, workers), errors.open("w") as stream:
        arguments = ("-m", "brtheory.cli", *STUDY, "--scheduler", address, "--out", out)
        with process(*arguments, stderr=stream) as study:
            wait_until(lambda: cells(out) >= 2 or study.poll() is not None)
            early = cells(out)
            workers[0].send_signal(signal.SIGKILL)
            study.wait(timeout=PATIENCE_S)
    assert (study.returncode, errors.read_text()) == (0, "")
    provenance, whole = results(out)
    assert 2 <= early < provenance["cells_computed"]
    assert provenance["scheduler"] == address
    assert run_cli(*STUDY, "--jobs", 1, "--out", local).code == 0
    assert results(local)[1] == whole
    names = [sorted(path.name for path in folder.glob("cells/*.json")) for folder in (out, local)]
    assert names[0] == names[1]
    assert not list(out.rglob("*.part"))


def cells(out):
    return len(list(out.glob("cells/*.json")))


@pytest.mark.slow
def test_a_scheduler_that_goes_away_ends_the_study_with_a_sentence(tmp_path):
    """Finished cells stay, and a local run goes on from them."""
    out, errors = tmp_path / "out", tmp_path / "errors"
    with cluster(tmp_path) as (address, scheduler, _), errors.open("w") as stream:
        arguments = ("-m", "brtheory.cli", *STUDY, "--scheduler", address, "--out", out)
        with process(*arguments, stderr=stream) as study:
            wait_until(lambda: cells(out) >= 1 or study.poll() is not None)
            scheduler.send_signal(signal.SIGKILL)
            study.wait(timeout=PATIENCE_S)
    assert study.returncode == 2
    assert "the Dask scheduler went away; finished cells are kept" in errors.read_text()
    assert "Traceback" not in errors.read_text()
    kept = cells(out)
    assert kept >= 1
    assert run_cli(*STUDY, "--jobs", 1, "--out", out).code == 0
    assert results(out)[0]["cells_reused"] == kept


PROGRAM = """
import os, signal, sys
from brtheory.errors import BrtheoryError
from brtheory.study import dask_pool
from brtheory.study.cells import Job, make_job
from brtheory.study.supply import WorkloadSupply, trace_digest
from brtheory.study.tasks import StationaryTask


class Dying(StationaryTask):
    def run(self, trace):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    trace = WorkloadSupply("s1").take(20, seed=0)
    task = {"fine": StationaryTask, "dying": Dying}[sys.argv[1]](2, 2, 9, 0)
    job = make_job(task, trace, digest=trace_digest(trace))
    if sys.argv[1] == "fine":
        job = Job("another key", job.task, job.trace)
    try:
        with dask_pool.dask_pool("local", workers=2) as pool:
            list(pool.run([job]))
    except BrtheoryError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "message"),
    [("fine", "a Dask worker runs other sources than this study"), ("dying", "workers died")],
)
def test_what_cannot_be_done_ends_with_a_sentence(tmp_path, kind, message):
    """A job of other sources is refused by the worker; one that kills its workers is given up."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, kind], capture_output=True, text=True, cwd=ROOT, check=False,
        env=environment(), timeout=PATIENCE_S,
    )  # fmt: skip
    assert message in done.stdout
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_an_address_without_a_scheduler_is_refused_in_time(monkeypatch):
    monkeypatch.setattr(dask_pool, "CONNECT_S", 0.5)
    refused = pytest.raises(InputError, match=r"--scheduler tcp://127.0.0.1:1: expected a Dask")
    with refused, dask_pool.dask_pool("tcp://127.0.0.1:1", workers=1):
        pass


def facts(**packages):
    """Versions as Dask tells them, all alike but those given."""
    return {"packages": dict.fromkeys(dask_pool.SAME_VERSIONS, "1") | packages}


@pytest.mark.parametrize("package", dask_pool.SAME_VERSIONS)
def test_workers_of_other_versions_are_refused_by_name(package):
    found = {"client": facts(), "scheduler": facts(), "workers": {"tcp://a:1": facts()}}
    dask_pool._check_versions(found)
    found["workers"]["tcp://b:1"] = facts(**{package: "2"})
    with pytest.raises(BrtheoryError, match=f"expected {package} 1 as here, got 2 on tcp://b:1"):
        dask_pool._check_versions(found)


def test_a_worker_computes_what_this_process_would():
    trace, task = small_trace(), RunTask(run_config("br0"))
    job = make_job(task, trace, digest=trace_digest(trace))
    outcome = dask_pool._run(job.key, task.on_engine("auto"), trace)
    assert (outcome.key, outcome.result, outcome.failure) == (job.key, task.run(trace), None)


def test_a_run_that_cannot_be_done_is_an_outcome_not_a_crash():
    shape = replace(run_config().shape, kv_capacity=1)
    trace, task = small_trace(), RunTask(replace(run_config(), shape=shape))
    job = make_job(task, trace, digest=trace_digest(trace))
    outcome = dask_pool._run(job.key, task, trace)
    assert outcome.result is None
    assert "kv_capacity is 1" in outcome.failure


def test_without_dask_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "brtheory.study.dask_pool", None)
    outcome = run_cli(*STUDY, "--scheduler", "local", "--out", tmp_path)
    assert outcome.code == 2
    assert "brtheory[cluster]" in outcome.err
    assert not list(Path(tmp_path).glob("cells/*.json"))
