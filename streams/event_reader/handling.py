"""Gives the events of one transaction to a reader's function."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streams.errors import ConfigError
from streams.serde.records import Envelope

_LONGEST_SECONDS = 2.0
"""A transaction takes no further event after this time: others wait for it, and Kafka ends one that
lasts too long. So a slow handler gets on, whatever its backlog is."""

Handle = Callable[[Envelope, Any], object]
"""A reader's function: it gets an event, and what its effects go through."""


@dataclass(frozen=True, slots=True)
class Part:
    """The events of one partition that one transaction handles.

    `stored` is the offset that the sink has, or None; `next` is the one that it has afterwards if
    all `events` are handled. Each event comes with the offset behind it.
    """

    partition: int
    stored: int | None
    next: int
    events: Sequence[tuple[int, Envelope]]


def require_plain(handle: Handle) -> None:
    """Check, as far as can be told before a call, that a handler runs when it is called.

    Raises:
        ConfigError: it is an `async def`.
    """
    if inspect.iscoroutinefunction(handle):
        raise ConfigError(f"{handle!r} is an `async def`, which nothing awaits: make it a `def`")


def handled(part: Part, handle: Handle, to: Any) -> int:
    """Handle events until the time is up; return the offset behind those that were handled.

    An exception names its event.

    Raises:
        ConfigError: a call has returned what would still have to be awaited or iterated.
        Exception: whatever `handle` raises.
    """
    latest = time.monotonic() + _LONGEST_SECONDS
    for after, event in part.events:
        try:
            _require_run(handle, handle(event, to))
        except Exception as error:
            tenant = event.tenant_id
            error.add_note(f"while event {event.event_id} of tenant {tenant!r} was handled")
            raise
        if time.monotonic() >= latest:
            return after
    return part.next


def _require_run(handle: Handle, returned: object) -> None:
    """Check that a call of a handler has run it.

    A coroutine and a generator have run nothing yet. An iterator may be a cursor, which has.
    """
    if inspect.iscoroutine(returned) or inspect.isgenerator(returned):
        returned.close()  # else Python warns that it was never awaited
    elif not inspect.isawaitable(returned) and not inspect.isasyncgen(returned):
        return
    raise ConfigError(
        f"{handle!r} returns a {type(returned).__name__}, which nothing awaits or iterates: make "
        "it a plain `def` without `yield`"
    )
