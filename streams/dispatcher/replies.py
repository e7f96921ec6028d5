"""Sends messages to workers, over the link of this process.

They leave once the step is committed. One to a worker that is not connected then is dropped.
"""

from __future__ import annotations

from streams.runtime.link import LINK
from streams.runtime.processor import Context
from streams.serde.link import frames
from streams.serde.link.messages import Answer, Message
from streams.serde.records import Reply


def say(ctx: Context, worker_id: str, message: Message) -> None:
    """Say something to a worker."""
    ctx.forward(LINK, worker_id.encode(), frames.encoded(message))


def answer(ctx: Context, worker_id: str, reply: Reply) -> None:
    """Answer a worker's command, or tell it of the end of a run."""
    say(ctx, worker_id, Answer(ctx.partition, reply))
