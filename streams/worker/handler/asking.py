"""Asks the owner of a job on behalf of a run, until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from streams.errors import LeaseLost
from streams.serde.records import CommandBody, Reply
from streams.worker.handler.run_session import RunSession
from streams.worker.link.contract import NEVER, Deadline
from streams.worker.link.replies import Replies

RESEND_SECONDS = 2.0
"""A question is sent again so long after its acknowledgement: an answer that comes later than that
may be lost with its owner."""


async def ask(
    session: RunSession,
    replies: Replies,
    claim_id: str,
    body: Callable[[], CommandBody],
    until: Deadline | None = None,
) -> Reply:
    """The answer to a command; `body` makes it anew each time that it is sent.

    `until` is the time until which a copy is sent, that of the lease unless given.

    Raises:
        LeaseLost: the run is over.
    """
    answer = replies.expect(claim_id)
    until = until or (lambda: session.held.valid_until)

    def wanted_until() -> float:
        # Once it is answered, no other owner must be asked: its answer would reach nobody.
        return NEVER if answer.done() else until()

    try:
        session.check()
        while True:
            sent = session.send(body(), wanted_until)
            either: set[asyncio.Future[Any]] = {answer, sent}
            await asyncio.wait(either, return_when="FIRST_COMPLETED")
            if not answer.done():
                await _acknowledged(session, sent)
                await asyncio.wait({answer}, timeout=RESEND_SECONDS)
            if answer.done():
                return answer.result()
            session.check()
    finally:
        replies.dismiss(claim_id)


async def _acknowledged(session: RunSession, sent: asyncio.Future[None]) -> None:
    try:
        await sent
    except LeaseLost:
        session.lose("a question could not be sent in time")
        raise
