"""Processes of a study end in silence on Ctrl-C, even while they are still starting."""

import os
import signal
import subprocess
import sys
import time

PROGRAM = """
import os, signal, time
from brtheory.study import workers

class Slow:
    key, cost_s = "slow", 1.0

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a runner may ignore it
    submit = workers.ProcessPoolExecutor.submit

    def submit_and_interrupt(pool, *arguments):
        future = submit(pool, *arguments)  # starts a process
        time.sleep(0.15)  # which is by now importing
        os.killpg(0, signal.SIGINT)  # as a terminal does
        return future

    workers.ProcessPoolExecutor.submit = submit_and_interrupt
    try:
        list(workers.run_jobs([Slow(), Slow()], workers=2))
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_an_interrupt_while_processes_start_leaves_no_traceback(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program], capture_output=True, check=False, start_new_session=True
    )
    assert (done.stdout, done.stderr) == (b"interrupted\n", b"")


def test_an_interrupted_study_says_nothing_and_leaves_no_process(tmp_path):
    arguments = ["study", "--scaling", "none", "--jobs", "2", "--out", str(tmp_path / "study")]
    process = subprocess.Popen(
        [sys.executable, "-m", "brtheory.cli", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    lock = tmp_path / "study" / ".lock"
    deadline = time.monotonic() + 60
    while not lock.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert not list(tmp_path.rglob("*.part"))


DYING = """
import os, signal, subprocess, time
from brtheory.study import workers

class Job:
    cost_s, trace = 1.0, None

    def __init__(self, key):
        self.key = key

    @property
    def task(self):
        return self

    def run(self, trace):
        if self.key == "sleeping":
            time.sleep(30)
        subprocess.Popen(["sh", "-c", f"sleep 0.1; kill -INT {os.getppid()}"])
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a runner may ignore it
    try:
        list(workers.run_jobs([Job("dying"), Job("sleeping")], workers=2))
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_workers_that_die_of_the_interrupt_first_do_not_hide_it(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(DYING)
    done = subprocess.run(
        [sys.executable, program], capture_output=True, check=False, start_new_session=True
    )
    assert (done.stdout, done.stderr) == (b"interrupted\n", b"")
