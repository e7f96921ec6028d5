"""The middleware of an application, in order; `DEFAULT` is what each application begins with."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from streams.errors import ConfigError
from streams.worker.middleware.contract import Middleware, WorkerParts
from streams.worker.middleware.isolation import Isolation
from streams.worker.middleware.metrics import Metrics
from streams.worker.middleware.policy import Policy
from streams.worker.middleware.preflight import Preflight
from streams.worker.middleware.redaction import Redacted
from streams.worker.middleware.run_log import RunLog
from streams.worker.middleware.time_limit import TimeLimit
from streams.worker.middleware.tracing import Tracing
from streams.worker.middleware.typed_input import TypedInput
from streams.worker.middleware.weight import Weight

Member = Middleware | type[Middleware]

DEFAULT: tuple[type[Middleware], ...] = (
    Tracing,
    Isolation,
    Weight,
    Metrics,
    RunLog,
    Redacted,
    TimeLimit,
    TypedInput,
    Preflight,
    Policy,
)
"""Outermost first: a run passes them downwards, and its result passes them upwards."""


class Stack:
    """`app.middleware`: iterate over it to see the order, outermost first.

    A member is an instance, or a class of which each worker makes an instance with its own parts.
    Change it before the worker starts.
    """

    def __init__(self) -> None:
        self._members: list[Member] = list(DEFAULT)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._members))

    def __repr__(self) -> str:
        return f"Stack({', '.join(map(_name, self._members))})"

    def add(
        self,
        member: Member,
        *,
        before: type[Middleware] | None = None,
        after: type[Middleware] | None = None,
    ) -> None:
        """Add a middleware: innermost, or just outside or inside of another one.

        Raises:
            ConfigError: it is not a middleware or stands there already, or the other one does not.
        """
        if before is not None and after is not None:
            raise ConfigError(f"middleware {_name(member)}: give `before` or `after`, not both")
        _check(member)
        if any(_kind(each) is _kind(member) for each in self._members):
            raise ConfigError(f"middleware {_name(member)} is there already: use `replace`")
        place = len(self._members)
        if before is not None:
            place = self._index(before)
        elif after is not None:
            place = self._index(after) + 1
        self._members.insert(place, member)

    def replace(self, old: type[Middleware], member: Member) -> None:
        """Put a middleware in the place of another one.

        Raises:
            ConfigError: it is not a middleware, or the other one is not there.
        """
        _check(member)
        self._members[self._index(old)] = member

    def remove(self, old: type[Middleware]) -> None:
        """Do without a middleware.

        Raises:
            ConfigError: it is not there.
        """
        del self._members[self._index(old)]

    def made(self, worker: WorkerParts) -> list[Middleware]:
        """The instances of one worker."""
        return [each(worker) if isinstance(each, type) else each for each in self._members]

    def _index(self, kind: type[Middleware]) -> int:
        """The place of a class, or of what a subclass of it has replaced it by."""
        for index, each in enumerate(self._members):
            if issubclass(_kind(each), kind):
                return index
        named = ", ".join(map(_name, self._members))
        raise ConfigError(f"no middleware {kind.__name__} is there: there are {named}")


def _kind(member: Member) -> type[Middleware]:
    return member if isinstance(member, type) else type(member)


def _name(member: object) -> str:
    return member.__name__ if isinstance(member, type) else type(member).__name__


def _check(member: object) -> None:
    kind = member if isinstance(member, type) else type(member)
    if not issubclass(kind, Middleware):
        raise ConfigError(
            f"middleware {member!r}: make it a subclass of streams.middleware.Middleware"
        )
    for hook in (kind.run, kind.effect):
        if not inspect.iscoroutinefunction(hook):
            raise ConfigError(
                f"middleware {kind.__name__}: {hook.__name__} is not an `async def`; make it one"
            )
    if isinstance(member, type):
        try:
            inspect.signature(member).bind(None)
        except TypeError as error:
            raise ConfigError(
                f"middleware {kind.__name__} is given as a class, which each worker calls with its "
                f"WorkerParts ({error}): give an instance"
            ) from error
