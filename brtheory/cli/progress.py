"""Progress on standard error: a bar where a person watches, nothing where none does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@contextmanager
def progress_bar(title: str, *, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar of ``total`` units (None: unknown) and yield ``advance(units)``."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(title, total=total)
        yield lambda units: progress.update(task, advance=units)
