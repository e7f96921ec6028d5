"""Asks the dispatcher on behalf of a run, until it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from streams.serde.records import CommandBody, Reply
from streams.worker.handler.run_session import RunSession
from streams.worker.transport.replies import Replies
from streams.worker.transport.retrying_sender import Deadline

RESEND_SECONDS = 2.0
"""A question is sent again after this long: a reply may be lost with its dispatcher."""


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
    try:
        session.check()
        while True:
            await session.say(body(), until)
            if (await asyncio.wait({answer}, timeout=RESEND_SECONDS))[0]:
                return answer.result()
            session.check()
    finally:
        replies.dismiss(claim_id)
