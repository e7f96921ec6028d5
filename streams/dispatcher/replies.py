"""Sends the dispatcher's replies to workers, on the partitions that they announced."""

from __future__ import annotations

from streams.errors import PoisonRecord
from streams.runtime.processor import Context
from streams.serde.codec import REPLY
from streams.serde.records import (
    ClaimStep,
    Command,
    Enqueue,
    ReadChildren,
    Reply,
    ReplyKind,
    SealGather,
)
from streams.topology.model import Topology

TOPIC = "jobs.replies"


def answer(ctx: Context, reply: Reply, partition: int) -> None:
    """Send a reply to the partition of `jobs.replies` that its worker reads."""
    ctx.forward(TOPIC, reply.worker_id.encode(), REPLY.encode(reply), partition=partition)


def answer_call(
    ctx: Context,
    command: Command,
    body: Enqueue | SealGather | ReadChildren | ClaimStep,
    kind: ReplyKind,
    message: str = "",
    result: str | None = None,
) -> None:
    """Answer what a run asks about jobs of its own, or a step; `result` is JSON."""
    whose = body.worker_id, command.job_id, command.epoch, body.claim_id
    answer(ctx, Reply(*whose, kind, result=result, message=message), body.reply_partition)


def check_partition(topology: Topology, name: str, partition: int) -> None:
    """Reject an undeclared partition early; otherwise the later send would fail the whole batch.

    Raises:
        PoisonRecord: the topology declares no such partition.
    """
    topic = topology.topics.get(name)
    if topic is None or not 0 <= partition < topic.partitions:
        raise PoisonRecord("no_such_partition", f"{name}-{partition} is not declared")
