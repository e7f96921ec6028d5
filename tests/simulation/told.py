"""Each event, end of a job and approval has one delivery for each endpoint that asks for all (G7).

What has to be delivered follows from the topics; endpoints that a story changes are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from simulation.outside import Violation
from streams.errors import PoisonRecord
from streams.runtime.processor import Record
from streams.serde.codec import APPROVAL, DELIVERY, ENVELOPE, JOB, TENANT
from streams.serde.job_states import SENT
from streams.tenants.endpoints import CALLBACKS

if TYPE_CHECKING:
    from simulation.world import World

Message = tuple[str, str]
"""Tenant and message."""


def at_the_end(world: World) -> None:
    """Compare the deliveries of unchanged endpoints with the topics.

    Raises:
        Violation: a message has no delivery, a delivery no cause, or an approval had two.
    """
    records = world.cluster.records
    made, twice = _made(_all(records, "deliveries"))
    happened = {message for _, message, _ in _messages(records, 0)}
    for tenant, endpoint, message_id in made:
        if (tenant, message_id) not in happened:
            raise Violation("unexplained", f"{endpoint} of {tenant} has {message_id}")
    for tenant, endpoint, since in _unchanged(records):
        if tenant in world.desk.erased:
            continue
        for topic, (owner, message_id), is_new in _messages(records, since):
            if is_new and owner == tenant and (tenant, endpoint, message_id) not in made:
                raise Violation("untold", f"{endpoint} of {tenant} has no {message_id} of {topic}")
    approvals = {message for topic, message, _ in _messages(records, 0) if topic == "approvals"}
    for tenant, endpoint, message_id in twice:
        if (tenant, message_id) in approvals:
            raise Violation("told_twice", f"{endpoint} of {tenant} had {message_id} again")


def _all(records: dict[tuple[str, int], list[Record]], topic: str) -> Iterator[Record]:
    return (record for (name, _), log in records.items() if name == topic for record in log)


def _unchanged(records: Any) -> list[tuple[str, str, int]]:
    """The endpoints that were set once and for all: tenant, id and the time of their record."""
    found = [(each.key, each) for each in _all(records, "tenants")]
    times = Counter(key for key, _ in found)
    once = [each for key, each in found if times[key] == 1 and each.value is not None]
    set_ = [(TENANT.decode(each.value), each.timestamp) for each in once]
    return [
        (record.tenant_id, record.id, at)
        for record, at in set_
        if record.kind == "endpoint" and record.id != CALLBACKS
    ]


def _made(log: Iterator[Record]) -> tuple[set[tuple[str, str, str]], set[tuple[str, str, str]]]:
    """What had a row, and what had another one after the first was deleted.

    Tests and notices, which no record explains, are left out.
    """
    lives: Counter[tuple[str, str, str]] = Counter()
    alive: set[bytes | None] = set()
    for record in log:
        if record.value is None:
            alive.discard(record.key)
        elif record.key not in alive:
            alive.add(record.key)
            row = DELIVERY.decode(record.value)
            if row.kind in ("event", "job", "callback"):
                lives[row.tenant_id, row.endpoint_id, row.message_id] += 1
    return set(lives), {place for place, times in lives.items() if times > 1}


def _messages(records: Any, since: int) -> Iterator[tuple[str, Message, bool]]:
    """What records since a time tell: topic, message, and whether it happened just then."""
    for topic, message_of in _MESSAGE_OF.items():
        for record in _all(records, topic):
            if record.value is None or record.timestamp < since:
                continue
            try:
                message, is_new = message_of(record.value)
            except PoisonRecord:
                continue
            yield topic, message, is_new


def _of_event(value: bytes) -> tuple[Message, bool]:
    event = ENVELOPE.decode(value)
    return (event.tenant_id, event.event_id), True


def _of_job(value: bytes) -> tuple[Message, bool]:
    """A replay writes the record of the old job again, which may be old by then."""
    job = JOB.decode(value)
    message = job.tenant_id, f"{job.job_id}_{job.incarnation}_{job.epoch}_{job.status}"
    return message, job.status in SENT and job.replayed_as is None


def _of_approval(value: bytes) -> tuple[Message, bool]:
    found = APPROVAL.decode(value)
    message_id = f"{found.approval_id}_{found.asked_at}_{found.status}"
    return (found.tenant_id, message_id), not found.votes or found.status != "pending"


_MESSAGE_OF = {"events": _of_event, "jobs": _of_job, "approvals": _of_approval}
