"""`ctx.step`: does a piece of work once, because its value is kept with the job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from streams.errors import PermanentError
from streams.serde.records import Checkpoint, StepResult
from streams.tracing.conventions import STEP
from streams.tracing.spans import child
from streams.worker.handler.invoke import call
from streams.worker.handler.run_session import RunSession
from streams.worker.handler.values import from_json, is_label, to_json

MAX_TOTAL_BYTES = 512 * 1024
"""The limit of all steps of one job, which travel together in the lease of its next run."""

_FRAME_BYTES = 8
"""A step takes this many bytes in a lease besides its name and value, for their lengths."""

_NAME_CHARS = 256


class Steps:
    """The steps of one run, and the values that earlier runs left."""

    def __init__(self, session: RunSession) -> None:
        self._session = session
        self._values = {left.id: left.value or "null" for left in session.lease.steps}
        self._total = sum(map(_size, self._values.items()))
        self._locks: dict[str, asyncio.Lock] = {}

    async def run(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """See `Context.step`."""
        if not is_label(name, _NAME_CHARS):
            raise PermanentError(f"step {name!r}: use a string of 1 to {_NAME_CHARS} characters")
        async with self._locks.setdefault(name, asyncio.Lock()):
            if name not in self._values:
                with child(f"step {name}", {STEP: name}):
                    self._values[name] = await self._begin(name, function, args, kwargs)
        return from_json(self._values[name])

    async def _begin(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> str:
        self._session.check()
        value = await call(partial(function, *args, **kwargs))
        text = to_json(value, f"the value of step {name!r}")
        # Reserve before awaiting, so that steps which end at the same time count each other.
        size = self._reserve(name, text)
        try:
            self._session.check()
            left = StepResult(name, "step", value=text)
            await self._session.say(Checkpoint(self._session.lease.run_id, left))
        except BaseException:
            self._total -= size
            raise
        return text

    def _reserve(self, name: str, text: str) -> int:
        size = _size((name, text))
        if self._total + size > MAX_TOTAL_BYTES:
            raise PermanentError(
                f"step {name!r} has {size:,} bytes: with the {self._total:,} of the others the "
                f"steps of this job hold more than {MAX_TOTAL_BYTES:,} bytes: store large values "
                "elsewhere and keep where they lie"
            )
        self._total += size
        return size


def _size(step: tuple[str, str]) -> int:
    return sum(len(part.encode()) for part in step) + _FRAME_BYTES
