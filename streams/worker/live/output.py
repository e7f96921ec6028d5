"""Publishes what one run says: tokens are gathered for a moment, and sent in order.

A run has one batch on its way at a time. So a record that has to be sent again cannot come behind
a later one of its step, and readers that drop a number which they have seen get each text once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from streams.process.wall_clock import wall_ms
from streams.redaction.redaction import Redaction
from streams.redaction.stream import StreamRedaction
from streams.serde.records import Lease, LiveKind, LiveOutput
from streams.serde.step_ids import inside_path
from streams.worker.live.budget import Bounds, Budget
from streams.worker.live.line import Line, written

GATHER_SECONDS = 0.05
"""Tokens of one step that are said within this time become one record."""
FLUSH_SECONDS = 2.0
"""How long the end of a step or run waits until what was said is durable."""
CHUNK_CHARS = 16 * 1024
TOKENS = Bounds(a_second=256 * 1024, at_once=256 * 1024, in_all=4 * 1024 * 1024)
"""Bytes of text of one run."""
LINES = Bounds(a_second=50, at_once=200, in_all=2_000)
"""Log lines of one run."""

Publish = Callable[[LiveOutput], asyncio.Future[None]]


@dataclass(slots=True, eq=False)
class _Said:
    """A record to be sent; the texts of a token that waits are joined."""

    kind: LiveKind
    step: str
    n: int
    texts: list[str]
    size: int = 0


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
        self._waiting: list[_Said] = []
        self._open: dict[str, _Said] = {}
        self._numbers: dict[str, int] = {}
        self._again: set[str] = set()
        self._line_number = 0
        self._holes: set[str] = set()
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
            if step in self._numbers:
                self._again.add(step)
                self._open.pop(step, None)

    def line(self, step: str, line: Line) -> None:
        """Publish a log line; drop it if the run writes too many."""
        with self._lock:
            fits = self._lines.take(1)
            if not fits:
                self._tell_dropped(step, "log lines", "writes more lines than readers are shown")
        if fits:
            text = written(line, self._redaction)  # calls each `repr`, which may say something
            with self._lock:
                self._add_line(step, text)
        self._wake()

    def finish(self, step: str | None = None) -> None:
        """Let out what was held back of a step, and of those inside it; without one, of all.

        Call this in the event loop, before the step's result is sent.
        """
        with self._lock:
            self._let_out(step)

    def hurry(self) -> None:
        """Begin at once to send what waits. Call this in the event loop."""
        if self._waiting or self._sending is not None:
            self._hurry.set()
            self._begin()

    async def flush(self) -> None:
        """Return once all that was said is durable, and after `FLUSH_SECONDS` in any case.

        Once it took so long, the next ones do not wait until the broker takes something again:
        otherwise each step of the run would take so much longer.
        """
        if self._waiting or self._sending is not None:
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
            self._leave_hole(step)
            self._tell_dropped(step, "tokens", "streams more text than readers are shown")
            return
        self._holes.discard(step)
        for begin in range(0, len(text), CHUNK_CHARS):
            self._append(step, text[begin : begin + CHUNK_CHARS])

    def _append(self, step: str, text: str) -> None:
        said = self._open.get(step)
        if said is None or said.size + len(text) > CHUNK_CHARS:
            said = self._next_token(step)
        said.texts.append(text)
        said.size += len(text)

    def _next_token(self, step: str) -> _Said:
        n = self._numbers.get(step, 0)
        if step in self._again or (n == 0 and self._lease.epoch > 1):
            self._again.discard(step)
            self._waiting.append(_Said("reset", step, n, []))
        said = self._open[step] = _Said("token", step, n, [])
        self._numbers[step] = n + 1
        self._waiting.append(said)
        return said

    def _leave_hole(self, step: str) -> None:
        """Skip one number of the step, so that a reader sees that text is missing."""
        if step not in self._holes:
            self._holes.add(step)
            self._next_token(step)
            self._waiting.remove(self._open.pop(step))

    def _tell_dropped(self, step: str, what: str, why: str) -> None:
        """Say once that something was dropped."""
        if what not in self._dropped:
            self._dropped.add(what)
            line = Line("warning", f"{what} are dropped: this run {why}")
            self._add_line(step, written(line, self._redaction))

    def _add_line(self, step: str, text: str) -> None:
        self._waiting.append(_Said("log", step, self._line_number, [text]))
        self._line_number += 1

    def _wake(self) -> None:
        if self._sending is None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        if self._sending is None and self._waiting:
            self._sending = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._waiting or self._flushes:
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

    async def _send(self, batch: Sequence[_Said]) -> None:
        """Send a batch; what cannot be sent any more is left out, as nothing depends on it."""
        for together in _rounds(batch):
            sent = [self._publish(self._record(said)) for said in together]
            await asyncio.gather(*sent, return_exceptions=True)

    def _taken(self) -> list[_Said]:
        with self._lock:
            taken, self._waiting = self._waiting, []
            self._open.clear()
            return taken

    def _record(self, said: _Said) -> LiveOutput:
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


def _rounds(batch: Sequence[_Said]) -> Iterator[list[_Said]]:
    """Lists of records that are sent together: of the texts of a step, one in each."""
    rounds: list[list[_Said]] = []
    of_step: dict[str, int] = {}
    for said in batch:
        at = 0 if said.kind == "log" else of_step.get(said.step, 0)
        if said.kind != "log":
            of_step[said.step] = at + 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(said)
    yield from rounds
