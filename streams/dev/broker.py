"""The embedded broker, supervised like the stages: restarted when it dies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from time import monotonic

from streams.broker.embedded import EmbeddedKafka
from streams.dev.process import describe_end
from streams.dev.supervisor import SOUND_AFTER_SECONDS, pause_after

_WAIT_SECONDS = 0.5
_SIGNALLED = 128
"""The exit code of a signalled process is this plus the signal's number."""


class SupervisedBroker:
    """Runs `kafka`; `say` gets its deaths as text, `changed` is called after each start and end."""

    def __init__(
        self, kafka: EmbeddedKafka, say: Callable[[str], None], changed: Callable[[], None]
    ) -> None:
        self._kafka = kafka
        self._say = say
        self._changed = changed
        self._starting: asyncio.Future[EmbeddedKafka] | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return self._kafka.pid

    @property
    def bootstrap(self) -> str:
        return self._kafka.bootstrap

    async def start(self) -> None:
        """Return once it answers.

        Raises:
            BrokerError: it cannot start; the message names the remedy.
        """
        await self._launch()
        self._keeping = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Stop in an orderly way; wait for a start in progress, then undo it."""
        if self._keeping:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        if self._starting:
            await asyncio.wait([self._starting])
        await asyncio.to_thread(self._kafka.stop)

    async def _launch(self) -> None:
        self._starting = asyncio.create_task(asyncio.to_thread(self._kafka.start))
        # A thread cannot be cancelled: `stop` waits for what it began.
        await asyncio.shield(self._starting)
        self._changed()

    async def _keep(self) -> None:
        failures, started = 0, monotonic()
        while True:
            end = await self._end()
            failures = 0 if monotonic() - started >= SOUND_AFTER_SECONDS else failures
            pause = pause_after(failures)
            failures += 1
            self._say(f"the broker {end}; starting it again in {pause:g} s")
            self._changed()
            await asyncio.sleep(pause)
            started = monotonic()
            try:
                await self._launch()
            except Exception as error:  # whatever it is, the next try may succeed
                self._say(f"the broker cannot start: {error}")

    async def _end(self) -> str:
        """Return how it ended; waits are short, because a thread cannot be cancelled."""
        while (code := await asyncio.to_thread(self._kafka.wait, _WAIT_SECONDS)) is None:
            if not self._kafka.running:
                return "is not there"
        return describe_end(code if code <= _SIGNALLED else _SIGNALLED - code)
