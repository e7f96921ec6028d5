"""What became of jobs, seen from outside: the topics, the stores, and what was really done.

Each check answers with the violations that it found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from streams.serde.codec import DEAD_LETTER, JOB
from streams.serde.records import Job
from support.dedup_verdict import Violation
from support.stage_process import QUIET, Cluster

Calls = Mapping[tuple[str, str], Sequence[str]]
"""By tool and job, the keys of the calls that were really made, in their order."""


@dataclass(frozen=True)
class Asked:
    """A job that somebody wants: its type, and how it is to end."""

    tenant: str
    type: str
    ends: str


class JobsReader:
    """The newest record of every job, as an analyst reads them."""

    def __init__(self, cluster: Cluster) -> None:
        self.jobs: dict[str, Job] = {}
        isolated = {"isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = Consumer({**cluster.client(group_id="reader"), **isolated, **QUIET})
        name = cluster.prefix + "jobs"
        self._consumer.assign([TopicPartition(name, p, 0) for p in range(cluster.width("jobs"))])

    def look(self) -> dict[str, Job]:
        for message in self._consumer.consume(10_000, 0.1):
            if message.error() is None and message.value():
                job = JOB.decode(message.value())
                self.jobs[job.job_id] = job
        return self.jobs

    def close(self) -> None:
        self._consumer.close()


def calls_in(lines: Sequence[str]) -> Calls:
    calls = defaultdict[tuple[str, str], list[str]](list)
    for tool, job_id, *key in map(str.split, lines):
        calls[tool, job_id] += key
    return calls


def as_asked(asked: Mapping[str, Asked], jobs: Mapping[str, Job]) -> Iterator[Violation]:
    """Every job that was asked for has ended as it should, and there is no other."""
    for job_id, wanted in asked.items():
        job = jobs.get(job_id)
        if job is None or job.status != wanted.ends:
            found = "no job" if job is None else f"{job.status}: {job.last_error}"
            yield Violation("ended_otherwise", f"{wanted.type} {job_id}", 1, (found,))
    for job_id in jobs.keys() - asked.keys():
        yield Violation("foreign", job_id, 1)


def done_once(
    asked: Mapping[str, Asked], calls: Calls, mails: Collection[str]
) -> Iterator[Violation]:
    """Every payment was called once; every mail once or more, always under one key.

    `mails` are the types that send one.
    """
    for job_id, wanted in asked.items():
        paid, keys = calls.get(("pay", job_id), ()), calls.get(("mail", job_id), ())
        if len(paid) != (wanted.type == "pay"):
            yield Violation("payments", f"{wanted.type} {job_id}", len(paid))
        if len(set(keys)) != (wanted.type in mails):
            yield Violation("mails", f"{wanted.type} {job_id}", len(set(keys)))


def answered_in_order(asked: Mapping[str, Asked], jobs: Mapping[str, Job]) -> Iterator[Violation]:
    """Every patient job got its two answers in the order in which they came, by one wake each."""
    for job_id, wanted in asked.items():
        expected = f'["{job_id}-1","{job_id}-2"]'
        if wanted.type != "patient":
            continue
        if jobs[job_id].result != expected:
            yield Violation("answers", job_id, 1, (str(jobs[job_id].result),))
        if jobs[job_id].resumes != 2:
            yield Violation("wakes", job_id, jobs[job_id].resumes)


def never_two(lines: Sequence[str]) -> list[Violation]:
    """No job had two runs at a time."""
    return [Violation("two_runs", line, 1) for line in lines if line.startswith("two_runs")]


def letters(cluster: Cluster, jobs: Mapping[str, Job]) -> Iterator[Violation]:
    """Every failed job has its dead letter, and nothing else has one."""
    found = [DEAD_LETTER.decode(message.value()) for message in cluster.read("dlq")]
    failed = {job_id for job_id, job in jobs.items() if job.status == "failed"}
    for letter in found:
        if letter.id not in failed:
            yield Violation("dead_letter", letter.id, 1, (f"{letter.reason}: {letter.detail}",))
    for job_id in failed - {letter.id for letter in found}:
        yield Violation("no_letter", job_id, 1)
