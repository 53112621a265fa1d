"""A solver call beside a main thread that stays awake for stop requests and Ctrl-C."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunningError
from typing import TypeVar

from solvers.budget import Budget

LOOK_EVERY_S = 0.05

Answer = TypeVar("Answer")


def run_stoppable(
    call: Callable[[], Answer], *, budget: Budget, stop: Callable[[], None]
) -> Answer:
    """Run ``call`` in a thread; once the budget asks for it, ``stop`` it and wait for its end."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        future: Future[Answer] = executor.submit(call)
        while True:
            try:
                return future.result(timeout=LOOK_EVERY_S)
            except StillRunningError:
                if future.done():  # the call itself raised a timeout
                    raise
                if budget.should_stop():
                    stop()
