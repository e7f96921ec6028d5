"""Calls of the store of artifacts, which may hang: none of them takes a thread that others need."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from streams.artifacts.store import ArtifactStore, StoreUnavailable
from streams.process.daemon_thread import NoThread, in_daemon_thread

ANSWER_SECONDS = 60.0
_MOST = 16
_FREE = threading.BoundedSemaphore(_MOST)

T = TypeVar("T")


async def asked(
    store: ArtifactStore, call: Callable[[ArtifactStore], T], seconds: float | None = None
) -> T:
    """What the store answers within `ANSWER_SECONDS`, or `seconds`.

    Raises:
        StoreUnavailable: it does not answer in time, or so many calls wait for it already.
    """
    if not _FREE.acquire(blocking=False):
        raise StoreUnavailable(f"{_MOST} calls wait for the store of artifacts: it hangs")
    longest = ANSWER_SECONDS if seconds is None else seconds
    try:
        async with asyncio.timeout(longest):
            return await in_daemon_thread(lambda: _answer(store, call))
    except TimeoutError:
        told = f"the store of artifacts did not answer within {longest:g} s"
        raise StoreUnavailable(told) from None
    except NoThread as error:
        _FREE.release()
        raise StoreUnavailable(str(error)) from error


def _answer(store: ArtifactStore, call: Callable[[ArtifactStore], T]) -> T:
    try:
        return call(store)
    finally:
        _FREE.release()
