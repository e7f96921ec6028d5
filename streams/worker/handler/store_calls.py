"""Calls of the store of artifacts in threads, few of which hang after their runs are over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from streams.artifacts.store import ArtifactStore, StoreUnavailable
from streams.process.daemon_thread import NoThread
from streams.worker.handler.left_calls import LeftCalls

_MOST_LEFT = 32
"""Each that is left holds what it writes, up to 64 MiB."""
_left = LeftCalls()

T = TypeVar("T")


async def asked(store: ArtifactStore, call: Callable[[ArtifactStore], T]) -> T:
    """What the store answers; cancelling ends only the wait.

    Raises:
        StoreUnavailable: too many calls hang that no run waits for any more.
    """
    if len(_left) >= _MOST_LEFT:
        raise StoreUnavailable(f"{len(_left)} calls of ended runs hang in the store of artifacts")
    try:
        return await _left.make(lambda: call(store))
    except NoThread as error:
        raise StoreUnavailable(str(error)) from error
