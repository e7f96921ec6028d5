"""Brings the dispatcher's replies to the runs they are for."""

from __future__ import annotations

import asyncio

from streams.errors import DecodeError
from streams.serde.codec import REPLY
from streams.serde.records import Reply
from streams.worker.ending import Ending
from streams.worker.outbox import Outbox
from streams.worker.refusal import refuse
from streams.worker.session import Session
from streams.worker.transport import Incoming


class Replies:
    """Fed by the reader's thread; everything else happens in the handlers' event loop."""

    def __init__(
        self, worker_id: str, partitions: int, outbox: Outbox, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._worker_id = worker_id
        self._partitions = partitions
        self._outbox = outbox
        self._loop = loop
        self._sessions: dict[tuple[str, int], Session] = {}
        self._expected: dict[str, asyncio.Future[Reply]] = {}

    def deliver(self, record: Incoming) -> None:
        """One record of `jobs.replies`; other workers' are passed over."""
        try:
            reply = REPLY.decode(record.value)
        except DecodeError as error:
            refuse(record, error, self._partitions, self._outbox)
            return
        if reply.worker_id == self._worker_id and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._route, reply)

    def attend(self, session: Session) -> None:
        self._sessions[session.held.id] = session

    def leave(self, session: Session) -> None:
        self._sessions.pop(session.held.id, None)

    def sessions(self) -> list[Session]:
        return list(self._sessions.values())

    def expect(self, claim_id: str) -> asyncio.Future[Reply]:
        """The answer to a claim; a cancelled future is forgotten by `dismiss`."""
        return self._expected.setdefault(claim_id, self._loop.create_future())

    def dismiss(self, claim_id: str) -> None:
        self._expected.pop(claim_id).cancel()

    def _route(self, reply: Reply) -> None:
        expected = self._expected.get(reply.claim_id)
        if expected is not None:
            if not expected.done():
                expected.set_result(reply)
            return
        if reply.claim_id:
            return  # the answer to a claim that was given up says nothing of the run
        session = self._sessions.get((reply.job_id, reply.epoch))
        if session is None:
            return
        if reply.kind == "cancel":
            session.stop(Ending("cancelled", error=reply.message or "cancelled"))
        elif reply.kind == "lost":
            session.lose(reply.message or "the dispatcher gave the job to another run")
