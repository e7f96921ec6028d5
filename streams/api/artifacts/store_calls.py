"""Calls of the store of artifacts, which may hang: none of them takes a thread that others need."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from streams.artifacts.store import ArtifactStore, StoreUnavailable
from streams.process.daemon_thread import NoThread, in_daemon_thread

ANSWER_SECONDS = 60.0
_MOST, _MOST_OF_ONE = 16, 12
"""A tenant whose calls take long, such as lists of many files, leaves some to others."""

T = TypeVar("T")


class _Places:
    """How many calls are under way, by whose they are; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = Counter[str]()

    def take(self, whose: str) -> None:
        """Take a place.

        Raises:
            StoreUnavailable: there is none.
        """
        with self._lock:
            if self._taken.total() >= _MOST:
                raise StoreUnavailable(f"{_MOST} calls wait for the store of artifacts: it hangs")
            if self._taken[whose] >= _MOST_OF_ONE:
                many = f"{_MOST_OF_ONE} calls for this tenant wait for the store of artifacts"
                raise StoreUnavailable(many)
            self._taken[whose] += 1

    def give(self, whose: str) -> None:
        """Give a place back."""
        with self._lock:
            self._taken[whose] -= 1
            self._taken += Counter()  # without those that have none any more


_PLACES = _Places()


async def asked(
    store: ArtifactStore,
    call: Callable[[ArtifactStore], T],
    seconds: float | None = None,
    *,
    whose: str = "",
) -> T:
    """What the store answers within `ANSWER_SECONDS`, or `seconds`; `whose` is the tenant.

    Raises:
        StoreUnavailable: it does not answer in time, or so many calls wait for it already.
    """
    _PLACES.take(whose)
    longest = ANSWER_SECONDS if seconds is None else seconds
    try:
        async with asyncio.timeout(longest):
            return await in_daemon_thread(lambda: _answer(store, call, whose))
    except TimeoutError:
        told = f"the store of artifacts did not answer within {longest:g} s"
        raise StoreUnavailable(told) from None
    except NoThread as error:
        _PLACES.give(whose)
        raise StoreUnavailable(str(error)) from error


def _answer(store: ArtifactStore, call: Callable[[ArtifactStore], T], whose: str) -> T:
    try:
        return call(store)
    finally:
        _PLACES.give(whose)
