"""Publishes what one run says: tokens are gathered for a moment, and sent in order.

A run has one batch on its way at a time. So a record that has to be sent again cannot come behind
a later one of its step, and readers that drop a number which they have seen get each text once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from streams.process.wall_clock import wall_ms
from streams.redaction.redaction import Redaction
from streams.redaction.stream import StreamRedaction
from streams.serde.records import Lease, LiveOutput
from streams.serde.step_ids import inside_path
from streams.worker.live.budget import Bounds, Budget
from streams.worker.live.line import Line, written
from streams.worker.live.unsent import Said, Unsent, rounds

GATHER_SECONDS = 0.05
"""Tokens of one step that are said within this time become one record."""
FLUSH_SECONDS = 2.0
"""How long the end of a step or run waits until what was said is durable."""
TOKENS = Bounds(a_second=256 * 1024, at_once=256 * 1024, in_all=4 * 1024 * 1024)
"""Bytes of text of one run."""
LINES = Bounds(a_second=50, at_once=200, in_all=2_000)
"""Log lines of one run."""

Publish = Callable[[LiveOutput], asyncio.Future[None]]


class LivePublisher:
    """The output of one run. `token` and `line` never block, and may be called in threads."""

    def __init__(
        self,
        lease: Lease,
        publish: Publish,
        clock: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
        redaction: Redaction,
    ) -> None:
        self._lease = lease
        self._publish = publish
        self._redaction = redaction
        self._streams: dict[str, StreamRedaction] = {}
        self._loop = loop
        self._lock = threading.Lock()
        self._tokens = Budget(TOKENS, clock)
        self._lines = Budget(LINES, clock)
        self._unsent = Unsent(is_again=lease.epoch > 1)
        self._dropped: set[str] = set()
        self._sending: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._flushes: list[asyncio.Future[None]] = []
        self._is_stuck = False

    def token(self, step: str, text: str) -> None:
        """Publish text that the function of a step says; drop it if the run says too much.

        What may be the beginning of a secret is held back until more text or the step's end comes.
        """
        with self._lock:
            self._say(step, self._clean(step, text))
        self._wake()

    def begin(self, step: str) -> None:
        """The function of a step is called; if it was before in this run, its text is void."""
        with self._lock:
            self._let_out(step)
            self._unsent.begin(step)

    def line(self, step: str, line: Line) -> None:
        """Publish a log line; drop it if the run writes too many."""
        with self._lock:
            fits = self._lines.take(1)
            if not fits:
                self._tell_dropped(step, "log lines", "writes more lines than readers are shown")
        if fits:
            text = written(line, self._redaction)  # calls each `repr`, which may say something
            with self._lock:
                self._unsent.add_line(step, text)
        self._wake()

    def finish(self, step: str | None = None) -> None:
        """Let out what was held back of a step, and of those inside it; without one, of all.

        Call this in the event loop, before the step's result is sent.
        """
        with self._lock:
            self._let_out(step)

    def hurry(self) -> None:
        """Begin at once to send what waits. Call this in the event loop."""
        if self._unsent or self._sending is not None:
            self._hurry.set()
            self._begin()

    async def flush(self) -> None:
        """Return once all that was said is durable, and after `FLUSH_SECONDS` in any case.

        Once it took so long, the next ones do not wait until the broker takes something again:
        otherwise each step of the run would take so much longer.
        """
        if self._unsent or self._sending is not None:
            sent: asyncio.Future[None] = self._loop.create_future()
            self._flushes.append(sent)
            self.hurry()
            seconds = 0.0 if self._is_stuck else FLUSH_SECONDS
            done, _ = await asyncio.wait({sent}, timeout=seconds)
            self._is_stuck = not done

    def _let_out(self, step: str | None) -> None:
        ended = [name for name in self._streams if step is None or _is_within(name, step)]
        for name in ended:
            self._say(name, self._streams.pop(name).finish())

    def _clean(self, step: str, text: str) -> str:
        if step not in self._streams:
            if self._redaction.is_idle:
                return text
            self._streams[step] = self._redaction.stream()
        return self._streams[step].feed(text)

    def _say(self, step: str, text: str) -> None:
        if not text:
            return
        if not self._tokens.take(len(text.encode())):
            self._unsent.leave_hole(step)
            self._tell_dropped(step, "tokens", "streams more text than readers are shown")
        else:
            self._unsent.add_text(step, text)

    def _tell_dropped(self, step: str, what: str, why: str) -> None:
        """Say once that something was dropped."""
        if what not in self._dropped:
            self._dropped.add(what)
            line = Line("warning", f"{what} are dropped: this run {why}")
            self._unsent.add_line(step, written(line, self._redaction))

    def _wake(self) -> None:
        if self._sending is None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._sending is None and self._unsent:
            self._sending = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._unsent or self._flushes:
                with suppress(TimeoutError):
                    async with asyncio.timeout(GATHER_SECONDS):
                        await self._hurry.wait()
                self._hurry.clear()
                flushes, self._flushes = self._flushes, []
                await self._send(self._taken())
                self._is_stuck = False
                for each in flushes:
                    if not each.done():
                        each.set_result(None)
        finally:
            self._sending = None
            self._begin()  # for what was said in a thread, after the last look

    async def _send(self, batch: Sequence[Said]) -> None:
        """Send a batch; what cannot be sent any more is left out, as nothing depends on it."""
        for together in rounds(batch):
            sent = [self._publish(self._record(said)) for said in together]
            await asyncio.gather(*sent, return_exceptions=True)

    def _taken(self) -> list[Said]:
        with self._lock:
            return self._unsent.take()

    def _record(self, said: Said) -> LiveOutput:
        lease, text = self._lease, "".join(said.texts)
        return LiveOutput(
            lease.job_id,
            lease.tenant_id,
            lease.run_id,
            lease.epoch,
            wall_ms(),
            said.kind,
            said.step,
            said.n,
            text,
        )


def _is_within(step: str, outer: str) -> bool:
    """Whether a step is this one, or its function or one inside calls it."""
    return step == outer or step.startswith(inside_path(outer))
