"""Brings the replies of owners to the runs they are for."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from streams.serde.records import Reply
from streams.serde.run_ends import CANCELLED
from streams.worker.handler.run_result import RunResult
from streams.worker.handler.run_session import RunSession

_REMEMBERED = 10_000


class Replies:
    """Any thread delivers here; everything else happens in the handlers' event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._sessions: dict[tuple[str, int], RunSession] = {}
        self._expected: dict[str, asyncio.Future[Reply]] = {}
        self._early: OrderedDict[tuple[str, int], Reply] = OrderedDict()

    def deliver(self, reply: Reply) -> None:
        """Pass on one reply."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._route, reply)

    def attend(self, session: RunSession) -> None:
        """Bring the session its replies, first one that overtook its lease."""
        self._sessions[session.held.id] = session
        early = self._early.pop(session.held.id, None)
        if early is not None and early.run_id in ("", session.lease.run_id):
            _end(session, early)

    def leave(self, session: RunSession) -> None:
        self._sessions.pop(session.held.id, None)

    def sessions(self) -> list[RunSession]:
        return list(self._sessions.values())

    def expect(self, claim_id: str) -> asyncio.Future[Reply]:
        """The answer to a claim; a cancelled future is forgotten by `dismiss`."""
        return self._expected.setdefault(claim_id, self._loop.create_future())

    def dismiss(self, claim_id: str) -> None:
        self._expected.pop(claim_id).cancel()

    def _route(self, reply: Reply) -> None:
        if reply.claim_id:
            # The answer to a claim that was given up says nothing of the run.
            expected = self._expected.get(reply.claim_id)
            if expected is not None and not expected.done():
                expected.set_result(reply)
        elif reply.kind in ("cancel", "lost"):
            self._end_run(reply)

    def _end_run(self, reply: Reply) -> None:
        place = reply.job_id, reply.epoch
        session = self._sessions.get(place)
        if session is not None:
            if reply.run_id in ("", session.lease.run_id):
                _end(session, reply)
            return
        self._early[place] = reply
        if len(self._early) > _REMEMBERED:
            self._early.popitem(last=False)


def _end(session: RunSession, reply: Reply) -> None:
    if reply.kind == "cancel":
        session.stop(RunResult(CANCELLED, error=reply.message or "cancelled"))
    else:
        session.lose(reply.message or "the dispatcher gave the job to another run")
