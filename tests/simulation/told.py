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
        Violation: a message has no delivery, or an approval had two.
    """
    records = world.cluster.records
    made, twice = _made(_all(records, "deliveries"))
    for tenant, endpoint, since in _unchanged(records):
        if tenant in world.desk.erased:
            continue
        for topic, (owner, message_id) in _messages(records, since):
            if owner == tenant and (tenant, endpoint, message_id) not in made:
                raise Violation("untold", f"{endpoint} of {tenant} has no {message_id} of {topic}")
    approvals = {message for topic, message in _messages(records, 0) if topic == "approvals"}
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
    """What had a row, and what had another one after the first was deleted."""
    lives: Counter[tuple[str, str, str]] = Counter()
    alive: set[bytes | None] = set()
    for record in log:
        if record.value is None:
            alive.discard(record.key)
        elif record.key not in alive:
            alive.add(record.key)
            row = DELIVERY.decode(record.value)
            lives[row.tenant_id, row.endpoint_id, row.message_id] += 1
    return set(lives), {place for place, times in lives.items() if times > 1}


def _messages(records: Any, since: int) -> Iterator[tuple[str, Message]]:
    """What endpoints are to be told that happened since a time, and on which topic it stands."""
    for topic, message_of in _MESSAGE_OF.items():
        for record in _all(records, topic):
            if record.value is None or record.timestamp < since:
                continue
            try:
                message = message_of(record.value)
            except PoisonRecord:
                continue
            if message is not None:
                yield topic, message


def _of_event(value: bytes) -> Message:
    event = ENVELOPE.decode(value)
    return event.tenant_id, event.event_id


def _of_job(value: bytes) -> Message | None:
    job = JOB.decode(value)
    if job.status not in SENT or job.replayed_as is not None:
        return None
    return job.tenant_id, f"{job.job_id}_{job.incarnation}_{job.epoch}_{job.status}"


def _of_approval(value: bytes) -> Message:
    found = APPROVAL.decode(value)
    return found.tenant_id, f"{found.approval_id}_{found.asked_at}_{found.status}"


_MESSAGE_OF = {"events": _of_event, "jobs": _of_job, "approvals": _of_approval}
