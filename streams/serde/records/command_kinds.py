"""What anyone asks about a command without looking into it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")
Sender = Literal["operator", "timer", "worker"]


@dataclass(frozen=True, slots=True)
class CommandKind:
    """One kind of command.

    The caller of one that `is_answered` is told of a refusal, so that the refusal's dead letter
    waits for nobody. One that is `of_a_moment` reports what held when it was sent: sent again
    later, it would make a worker look alive.
    """

    name: str
    sender: Sender
    is_answered: bool
    of_a_moment: bool


KIND_OF: dict[type, CommandKind] = {}
"""The kind of each class that is the body of a command."""


def sent_by(
    sender: Sender, *, is_answered: bool = False, of_a_moment: bool = False
) -> Callable[[type[T]], type[T]]:
    """Declare the kind of command that has this class as its body."""

    def declare(body: type[T]) -> type[T]:
        KIND_OF[body] = CommandKind(body.__name__, sender, is_answered, of_a_moment)
        return body

    return declare
