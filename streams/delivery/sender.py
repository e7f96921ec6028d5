"""Makes the attempts: an event loop in a thread of its own, which knows no stores and no topics.

An attempt reads and renders its message, waits for its host, signs the message and posts it.
Whatever fails in that becomes the attempt's end, so that no row waits for an attempt that is over.
A large message waits for memory first, and is read when its host is free.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence

import structlog
import uvloop

from streams.delivery.attempt_span import attempt_span, note_end
from streams.delivery.attempts import Attempt, Blame, Ended
from streams.delivery.egress.policy import EgressPolicy
from streams.delivery.egress.post import Outcome
from streams.delivery.egress.poster import Poster
from streams.delivery.message.formats import Rendered
from streams.delivery.requests import Requests
from streams.errors import JobError, PermanentError, TidegateError, TransientError
from streams.process.daemon_thread import DaemonThread
from streams.process.shared_room import SharedRoom
from streams.process.wall_clock import wall_ms
from streams.serde.delivery_records import Outgoing

log = structlog.get_logger(__name__)

_LARGE = 16 * 1024
"""Smaller bodies are not counted: those of all attempts together take 64 MiB at most, twice."""
_MOST_LARGE = 64 * 1024 * 1024
"""Bytes of all large bodies in attempts; each may be held twice, as it came and as it is sent."""
_SHARE_OF_LARGE = 3
"""A tenant's large bodies have at most so many times the bytes that stay free: if all receivers of
some tenants hang, there is room for those of the next."""
_OURS = frozenset({"proxy", "exhausted", "stalled"})
"""Failures that say nothing of the receiver."""


class _Withdrawn(Exception):
    """Nothing was sent, because the process ends."""


class Fault:
    """The first error, of any thread, after which the stage must end."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def occurred(self, error: Exception) -> None:
        log.error("the stage must end", error=str(error), kind=type(error).__name__)
        self._error = self._error or error

    def check(self) -> None:
        """Raise the error, if there is one."""
        if self._error is not None:
            raise self._error


class HttpSender:
    """The `Sender` of the stage, over HTTP."""

    def __init__(self, policy: EgressPolicy, requests: Requests, fault: Fault) -> None:
        self._policy = policy
        self._fault = fault
        self._requests = requests
        self._loop = uvloop.new_event_loop()
        self._ready = threading.Event()
        self._thread = DaemonThread("delivery", self._run)
        self._running: dict[int, set[asyncio.Task[None]]] = defaultdict(set)
        self._ended: dict[int, list[Ended]] = defaultdict(list)
        self._open: Counter[int] = Counter()  # by partition, attempts whose end was not taken
        self._draining = False
        self._large = SharedRoom(_MOST_LARGE, _SHARE_OF_LARGE)
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the thread; attempts may be sent from now on.

        Raises:
            TidegateError: the policy cannot be used.
        """
        self._thread.start()
        self._ready.wait()
        self._fault.check()

    def stop(self) -> None:
        """Cancel what is under way, and wait for the thread."""
        self._thread.stopping.set()
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.stop()

    def drained(self) -> bool:
        """Send no more requests from now on; whether those sent have ended, and `ended` told of it.

        Attempts that are given up by this have no end: their rows stay pending.
        """
        self._draining = True
        return not self._open

    def send(self, partition: int, attempts: Sequence[Attempt]) -> None:
        self._fault.check()
        if self._draining:
            return
        with self._lock:
            self._open[partition] += len(attempts)
        self._loop.call_soon_threadsafe(self._begin, partition, attempts)

    def ended(self, partition: int) -> list[Ended]:
        self._fault.check()
        if not self._ended.get(partition):
            return []
        with self._lock:
            ended = self._ended.pop(partition)
            self._close(partition, len(ended))
        return ended

    def forget(self, partition: int) -> None:
        with self._lock:
            self._open.pop(partition, None)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel, partition)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:
            self._fault.occurred(error)
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._stopped = asyncio.Event()
        async with Poster(self._policy) as self._poster:
            self._ready.set()
            await self._stopped.wait()
            for partition in list(self._running):
                self._cancel(partition)

    def _begin(self, partition: int, attempts: Sequence[Attempt]) -> None:
        running = self._running[partition]
        for attempt in attempts:
            task = self._loop.create_task(self._make(partition, attempt))
            running.add(task)
            task.add_done_callback(running.discard)

    def _cancel(self, partition: int) -> None:
        for task in self._running.pop(partition, ()):
            task.cancel()
        with self._lock:
            self._ended.pop(partition, None)

    async def _make(self, partition: int, attempt: Attempt) -> None:
        began = wall_ms()
        try:
            with attempt_span(attempt) as span:
                ended = await self._ended_of(attempt, began)
                note_end(span, ended)
        except _Withdrawn:
            with self._lock:
                self._close(partition, 1)
            return
        except Exception as error:  # a bug of ours must not leave the row without an end
            log.exception("an attempt raised", delivery_id=attempt.row.delivery_id)
            ended = _unsent(attempt, began, "internal", type(error).__name__, "us")
        with self._lock:
            self._ended[partition].append(ended)

    def _close(self, partition: int, attempts: int) -> None:
        self._open -= Counter({partition: attempts})  # what is at 0 or forgotten drops out

    async def _ended_of(self, attempt: Attempt, began: int) -> Ended:
        try:
            return await self._posted(attempt)
        except TransientError as error:
            return _unsent(attempt, began, "body_unavailable", str(error), "us")
        except PermanentError as error:
            return _unsent(attempt, began, "body_unusable", str(error), "message")
        except (JobError, TidegateError) as error:
            return _unsent(attempt, began, "unsigned", str(error), "us")

    async def _posted(self, attempt: Attempt) -> Ended:
        tenant_id, endpoint_id = attempt.row.tenant_id, attempt.row.endpoint_id
        size = _size(attempt.message)
        if size < _LARGE:
            rendered = await self._requests.rendered(attempt)
            async with self._poster.turn(attempt.url, tenant_id, endpoint_id):
                return await self._post(attempt, rendered)
        async with (
            self._large.of(tenant_id, min(size, _MOST_LARGE)),
            self._poster.turn(attempt.url, tenant_id, endpoint_id),
        ):
            return await self._post(attempt, await self._requests.rendered(attempt))

    async def _post(self, attempt: Attempt, rendered: Rendered) -> Ended:
        if self._draining:
            raise _Withdrawn
        began = wall_ms()
        if not attempt.wanted():
            return _unsent(attempt, began, "withdrawn", "its endpoint has changed", "nobody")
        post, secrets = self._requests.signed(attempt, rendered, began)
        return _answered(attempt, began, await self._poster.post(post, secrets))


def _size(message: Outgoing) -> int:
    return message.payload_ref.size if message.payload_ref else len(message.data or b"")


def _unsent(attempt: Attempt, began: int, error: str, detail: str, blame: Blame) -> Ended:
    return Ended(
        attempt.row,
        began,
        wall_ms() - began,
        url=attempt.url,
        error=error,
        detail=detail,
        blame=blame,
        probe=attempt.probe,
    )


def _answered(attempt: Attempt, began: int, outcome: Outcome) -> Ended:
    taken = outcome.status is not None and 200 <= outcome.status < 300
    error = outcome.error or (None if taken else "status")
    return Ended(
        row=attempt.row,
        at=began,
        duration_ms=outcome.duration_ms,
        address=outcome.address,
        status=outcome.status,
        url=attempt.url,
        error=error,
        detail=outcome.detail,
        excerpt=outcome.excerpt,
        retry_after_seconds=outcome.retry_after_seconds,
        blame="us" if outcome.error in _OURS else "receiver",
        probe=attempt.probe,
    )
