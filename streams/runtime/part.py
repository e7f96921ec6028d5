"""What the parts of a stage declare: the commands and inputs they handle, and the keys they own.

A part is one concern of a stage. Parts do not import each other: the stage has one list of them,
routes commands and records to them, and calls their hooks in that order. Several parts may read one
input. If two parts claim the same command or key space, the import fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

F = TypeVar("F", bound=Callable[..., None])


class Declaration:
    """The base of a stage's parts: it collects what a part marks and names."""

    keys: ClassVar[dict[bytes, str]] = {}
    """Key spaces in the stage's own store: the first byte of the keys, and what they hold."""
    commands: ClassVar[dict[Any, str]] = {}
    """Names of the methods marked with `handles`, by the command."""
    inputs: ClassVar[dict[Any, str]] = {}
    """Names of the methods marked with `reads`, by the topic."""

    def __init_subclass__(cls) -> None:
        methods = {name: vars(cls)[name] for name in vars(cls)}
        cls.commands = {m.handles: name for name, m in methods.items() if hasattr(m, "handles")}
        cls.inputs = {m.reads: name for name, m in methods.items() if hasattr(m, "reads")}


P = TypeVar("P", bound=Declaration)


def handles(command: object) -> Callable[[F], F]:
    """Mark the method that applies commands of this kind, or with a body of this type.

    A part of the dispatcher also marks so the method for runs that end in this way.

    It raises `PoisonRecord` if the command can never be applied.
    """
    return _marked("handles", command)


def reads(topic: str) -> Callable[[F], F]:
    """Mark a method that handles records of this input: it gets the step and the record.

    Where several parts read an input, each record goes to all of them, in the order of the list.
    """
    return _marked("reads", topic)


def routes(parts: Iterable[type[P]]) -> dict[Any, tuple[type[P], str]]:
    """The part and the name of the method that handle each command.

    Raises:
        ValueError: two parts claim the same one.
    """
    claims = [(key, part, name) for part in parts for key, name in part.commands.items()]
    _refuse_two_owners((key, part.__name__) for key, part, _ in claims)
    return {key: (part, name) for key, part, name in claims}


def readers(parts: Iterable[type[P]]) -> dict[Any, list[tuple[type[P], str]]]:
    """The parts that read each input, in their order, and the names of the methods."""
    found: dict[Any, list[tuple[type[P], str]]] = {}
    for part in parts:
        for topic, name in part.inputs.items():
            found.setdefault(topic, []).append((part, name))
    return found


def key_spaces(parts: Iterable[type[Declaration]], shared: Iterable[bytes] = ()) -> dict[Any, str]:
    """The owner of each key space: one part, or the state that all parts share.

    Raises:
        ValueError: two of them claim the same one.
    """
    owned = [(prefix, part.__name__) for part in parts for prefix in part.keys]
    return _refuse_two_owners([*((prefix, "the shared state") for prefix in shared), *owned])


def with_hook(parts: Iterable[P], base: type[P], hook: str) -> list[P]:
    """The parts that define a hook which is called often."""
    return [part for part in parts if getattr(type(part), hook) is not getattr(base, hook)]


def _refuse_two_owners(claims: Iterable[tuple[Any, str]]) -> dict[Any, str]:
    owners: dict[Any, str] = {}
    for key, owner in claims:
        if key in owners:
            raise ValueError(f"{owner} and {owners[key]} both claim {key!r}: give it to one")
        owners[key] = owner
    return owners


def _marked(kind: str, value: Any) -> Callable[[F], F]:
    def mark(method: F) -> F:
        setattr(method, kind, value)
        return method

    return mark
