"""The records of `bench_operator.py`: two of every job, and some dead letters and events."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from bench_event_rows import record as event_record
from confluent_kafka import Producer
from outside import OVERLAY, flush, producer

from streams import dead_letter
from streams.dispatcher.job import begun, ended
from streams.new_jobs import FIRST, from_submission
from streams.serde.codec import JOB
from streams.serde.ids import partition_for
from streams.serde.job_states import FAILED, SUCCEEDED, JobStatus
from streams.serde.records import Handler, Job, Submit
from streams.serde.replacing import replace
from streams.topology.load import load

TOPOLOGY = load(OVERLAY)
TENANTS = 40
TYPES = 8
BEGIN = time.time_ns() // 1_000_000 - 3_600_000
"""Milliseconds: dead letters that are much older would be deleted."""
AT_ONCE = 15_000
"""Jobs that run at the same time: their records lie between two of the same job."""
EVENT_EVERY = 10
FAILS_EVERY = 50
"""Every such job fails, and has a dead letter."""


@dataclass(frozen=True, slots=True)
class Sent:
    topic: str
    key: bytes
    value: bytes
    partition: int


def job(number: int) -> Job:
    """A job as the dispatcher has it when its first run has begun."""
    now = BEGIN + number
    return replace(
        _template(number % TYPES),
        job_id=f"job_{number}",
        tenant_id=f"tenant{number % TENANTS}",
        scope=f"job_{number}.1.mbxstdz5",
        run_id=f"run_{number}",
        event_time=now,
        created_at=now,
        updated_at=now,
        ready_at=now,
    )


@cache
def _template(type_: int) -> Job:
    submit = Submit(f"plain{type_}", "{}", None, None, None, None, None, "bench", b"\7" * 32, None)
    made = from_submission("job", "tenant", submit, TOPOLOGY, place=FIRST, at=BEGIN, now=BEGIN)
    made = begun(made, "run", "bench/1", Handler(submit.type, 3, (1.0,), 30), BEGIN)
    return replace(made, traceparent=f"00-{'a' * 32}-{'b' * 16}-01")


def final_status(number: int) -> JobStatus:
    return FAILED if number % FAILS_EVERY == 0 else SUCCEEDED


def of_jobs(numbers: range) -> Iterator[Sent]:
    """All records of some jobs that run at the same time."""
    jobs = [(number, job(number)) for number in numbers]
    yield from (of_job(each) for _, each in jobs)
    for number, each in jobs:
        done = ended(each, final_status(number), each.updated_at + 1)
        yield of_job(done)
        if done.status == FAILED:
            _, letter = dead_letter.encoded(dead_letter.of_job(done, done.updated_at))
            yield _sent(dead_letter.TOPIC, done, letter)
        if number % EVENT_EVERY == 0:
            event = event_record(number)
            home = partition_for(each.tenant_id, TOPOLOGY.partitions)
            yield Sent("events", event.key or b"", event.value or b"", home)


def of_job(each: Job) -> Sent:
    return _sent("jobs", each, JOB.encode(each))


def _sent(topic: str, of: Job, value: bytes) -> Sent:
    return Sent(topic, of.job_id.encode(), value, partition_for(of.tenant_id, TOPOLOGY.partitions))


def write(bootstrap: str, records: Iterable[Sent]) -> int:
    """Write records as fast as the broker takes them; return how many there were."""
    sender, count = producer(bootstrap, linger_ms=20), 0
    for each in records:
        _produce(sender, each)
        count += 1
    flush(sender)
    return count


def _produce(sender: Producer, record: Sent) -> None:
    while True:
        try:
            sender.produce(record.topic, record.value, record.key, record.partition)
            return
        except BufferError:
            sender.poll(0.1)
