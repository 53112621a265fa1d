"""Options that come in groups: a parameter that is a dataclass stands for one option a field.

Typer reads the options of a command from its signature. ``grouped`` gives it the flat signature,
each group's fields in the group's place, and the command gets its groups whole.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command of groups of options one of single options.

    Parameters
    ----------
    command
        Its parameters are options as Typer has them, or dataclasses whose fields are such options.
        No name may stand in two of them.
    """
    groups: dict[str, type[Any]] = {}
    options: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, type) and is_dataclass(annotation):
            groups[name] = annotation
            options += signature(annotation).parameters.values()
        else:
            options.append(parameter)

    @wraps(command)
    def flat(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    options = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]
    vars(flat)["__signature__"] = signature(command).replace(parameters=options)
    flat.__annotations__ = {option.name: option.annotation for option in options}
    return flat
