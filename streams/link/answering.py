"""Answers the requests of all connections: each is a task of the server's loop, and no thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, assert_never
from weakref import WeakKeyDictionary

import structlog

from streams.errors import KafkaUnavailable, PermanentError, TransientError
from streams.link import metrics
from streams.link.bodies import Bodies
from streams.link.live import Publishing
from streams.link.requests import Connection, NotOwned, Request
from streams.link.sealing import Sealing
from streams.serde.link.messages import (
    Announce,
    Body,
    Failed,
    Live,
    Progress,
    Seal,
    Unseal,
)

log = structlog.get_logger(__name__)

MOST_OPEN = 2_000
"""How many requests of one connection are answered at once; more are refused for now."""
_LONGEST_REASON = 2_000

_Tasks = dict[int, asyncio.Task[None]]


class Answering:
    """`Answers` of bodies, seals and what is published; it belongs to one event loop."""

    def __init__(self, bodies: Bodies, sealing: Sealing, publishing: Publishing) -> None:
        self._bodies = bodies
        self._sealing = sealing
        self._publishing = publishing
        self._open: WeakKeyDictionary[Connection, _Tasks] = WeakKeyDictionary()

    def ask(self, connection: Connection, request: Request) -> None:
        """Begin to answer a request; it replaces an open one of the same number."""
        number, own = request.request, self._open.setdefault(connection, {})
        before = own.pop(number, None)
        if before is not None:
            before.cancel()
        if len(own) >= MOST_OPEN:
            full = TransientError(f"{MOST_OPEN:,} requests of this connection are open: ask later")
            _refuse(connection, request, full, permanent=False)
            return
        task = own[number] = asyncio.create_task(self._answer(connection, request))

        def done(_: asyncio.Task[None]) -> None:
            if own.get(number) is task:
                del own[number]

        task.add_done_callback(done)

    def closed(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        for task in list(self._open.pop(connection, {}).values()):
            task.cancel()

    async def _answer(self, connection: Connection, request: Request) -> None:
        try:
            await self._answered(connection, request)
            _count(request, "answered")
        except NotOwned:  # the worker asks the heir, or again once the partition is announced anew
            _count(request, "dropped")
        except PermanentError as error:
            _refuse(connection, request, error, permanent=True)
        except (TransientError, KafkaUnavailable) as error:
            _refuse(connection, request, error, permanent=False)
        except Exception as error:
            kind = _kind(request)
            log.exception("a worker's request failed", request=kind, worker=connection.worker_id)
            told = RuntimeError(f"the owner failed: {type(error).__name__}; see its log")
            _refuse(connection, request, told, permanent=False)

    def _answered(self, connection: Connection, request: Request) -> Coroutine[Any, Any, None]:
        match request:
            case Body():
                return self._bodies.answer(connection, request)
            case Seal():
                return self._sealing.seal(connection, request)
            case Unseal():
                return self._sealing.unseal(connection, request)
            case Live():
                return self._publishing.live(connection, request)
            case Progress():
                return self._publishing.progress(connection, request)
            case Announce():
                return self._publishing.announce(connection, request)
            case _:
                assert_never(request)


def _refuse(connection: Connection, request: Request, error: Exception, *, permanent: bool) -> None:
    _count(request, "refused" if permanent else "failed")
    connection.send(Failed(request.request, str(error)[:_LONGEST_REASON], permanent))


def _kind(request: Request) -> str:
    return type(request).__name__.lower()


def _count(request: Request, outcome: str) -> None:
    metrics.REQUESTS.labels(_kind(request), outcome).inc()
