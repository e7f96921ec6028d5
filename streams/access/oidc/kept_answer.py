"""Keeps an answer that many calls need: they share one question, and a failed one is not repeated
at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from streams.errors import IssuerUnavailable

T = TypeVar("T")

LIFETIME_SECONDS = 600.0
"""How long an answer is used before it is asked for again."""

AGAIN_SECONDS = 10.0
"""The least time between two questions, whatever came of the first."""


class KeptAnswer(Generic[T]):
    """The newest answer; while the issuer does not answer, an older one goes on to be used."""

    def __init__(self, ask: Callable[[], Awaitable[T]], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._kept: T | None = None
        self._failure: IssuerUnavailable | None = None
        self._asked_at = -LIFETIME_SECONDS
        self._asking: asyncio.Task[None] | None = None

    async def get(self) -> T:
        """Return the answer.

        Raises:
            IssuerUnavailable: there is none yet, and the issuer does not give one.
        """
        if self._kept is None or self._age() >= LIFETIME_SECONDS:
            await self._renew()
        return self._answer()

    async def newer(self) -> T:
        """Return the answer, asked for again unless that was done a moment ago."""
        await self._renew()
        return self._answer()

    def _age(self) -> float:
        return self._clock() - self._asked_at

    async def _renew(self) -> None:
        if self._asking is None and self._age() >= AGAIN_SECONDS:
            self._asking = asyncio.create_task(self._asked())
        if self._asking is not None:
            await asyncio.shield(self._asking)

    async def _asked(self) -> None:
        try:
            self._kept, self._failure = await self._ask(), None
        except IssuerUnavailable as error:
            self._failure = error
        finally:
            self._asked_at = self._clock()
            self._asking = None

    def _answer(self) -> T:
        if self._kept is None:
            raise self._failure or IssuerUnavailable("the issuer has not answered yet")
        return self._kept
