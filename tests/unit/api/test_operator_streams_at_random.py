"""Streams at any pace of the topics, on two replicas, cut anywhere: all is told, and once."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import ClientError
from support.live_desk import (
    Got,
    Log,
    Rows,
    StepOf,
    opened,
    parsed,
    reset,
    serving,
    texts,
    token,
)
from support.operator_cluster import make_entry, make_job

from streams.api.live.position import TOPICS
from streams.runtime.processor import Record
from streams.serde.records import Job, LiveOutput, Progress, StepResult, Workflow

JOBS = ("job_a", "job_b", "job_c")
ROOT = JOBS[0]
PATH = f"/v1/stream?jobs={','.join(JOBS)}"


class Replica(Rows):
    """A read model to which each topic comes at a pace of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        # The follower tells how far it is in each partition before anybody may read.
        places = itertools.product(TOPICS, range(self.topology.partitions))
        self.notifier.folded.update(dict.fromkeys(places, 0))
        self._due: defaultdict[tuple[str, int], deque[Record]] = defaultdict(deque)
        self._moved = asyncio.Condition()

    def give(self, records: list[Record]) -> None:
        """Records that are on the topics now."""
        for record in records:
            self._due[record.topic, record.partition].append(record)

    async def read_barrier(self, *places: Any) -> None:
        """Wait until what is on these partitions now is folded."""
        last = [self._due[place][-1] for place in places if self._due[place]]
        async with self._moved:
            await self._moved.wait_for(lambda: not any(self._waits(each) for each in last))

    async def go_on(self, random: Random) -> None:
        """Fold some records of some topics in one batch."""
        batch = list[Record]()
        for due in self._due.values():
            for _ in range(random.choice((0, 0, 1, 2, 5))):
                if due:
                    batch.append(due.popleft())
        if batch:
            self.fold(*batch)
        async with self._moved:
            self._moved.notify_all()

    @property
    def is_behind(self) -> bool:
        return any(self._due.values())

    def _waits(self, record: Record) -> bool:
        due = self._due[record.topic, record.partition]
        return bool(due) and due[0].offset <= record.offset


def life(random: Random, job_id: str) -> list[Any]:
    """What a job does in up to three runs; each value of a list is written after the one before."""
    job = make_job(job_id, scope=f"{job_id}.1", created_at=1, updated_at=1)
    done, records = list[str](), list[Any]([job])
    runs = random.randrange(1, 4)
    for epoch in range(1, runs + 1):
        job = replace(job, status="running", attempts=epoch, epoch=epoch, run_id=f"run_{epoch}")
        records.append(job)
        steps = [step for step in ("one", "two", "") if step not in done]
        for step in steps:
            records += said(random, job_id, step, epoch)
            if step and random.random() < 0.6:
                done.append(step)
                left = StepResult(step, "step", len(done), value='"v"')
                records.append(StepOf(job_id, left))
            if random.random() < 0.3:
                records.append(Progress(job_id, "acme", f"run_{epoch}", 1, f'"{epoch}{step}"'))
        if random.random() < 0.5:
            records.append(make_entry(job, f"email:send/{epoch}"))
        if epoch > 1 and random.random() < 0.5:
            records.append(token(job_id, 99, "from a run that was lost", epoch=epoch - 1))
    return [*records, replace(job, status=random.choice(("succeeded", "failed", "dead")))]


def said(random: Random, job_id: str, step: str, epoch: int) -> list[LiveOutput]:
    found = [reset(job_id, step=step, epoch=epoch)] if epoch > 1 else []
    for n in range(random.randrange(6)):
        one = token(job_id, n, f"{epoch}.{step}.{n};", step=step, epoch=epoch)
        found += [one, one] if random.random() < 0.2 else [one]
    return found


def expected(records: list[Any]) -> dict[str, str]:
    """The texts by the rule of docs/live.md, in the order in which they were written."""
    found: dict[str, str] = {}
    numbers: dict[str, int] = {}
    newest = 0
    for each in records:
        if not isinstance(each, LiveOutput) or each.epoch < newest:
            continue
        if each.epoch > newest:
            newest, numbers = each.epoch, {}
        if each.kind == "reset":
            found.pop(each.step, None)
        elif each.n > numbers.get(each.step, -1):
            numbers[each.step] = each.n
            found[each.step] = found.get(each.step, "") + each.text
    return found


async def read(random: Random, clients: list[Any], path: str = PATH) -> list[Got]:
    """Read the stream to its end, by any replica, and cut anywhere."""
    got, last = list[Got](), None
    while True:
        async with await opened(random.choice(clients), path, last) as answer:
            if answer.status == 204:
                return got
            raw, most = b"", random.choice((50, 3_000, 30_000, 10**9))
            with suppress(TimeoutError, ClientError):
                async with asyncio.timeout(random.choice((0.01, 0.05))):
                    while len(raw) < most and (piece := await answer.content.read(most - len(raw))):
                        raw += piece
        got += parsed(raw)
        last = got[-1].id if got else None


async def go_on(random: Random, replicas: list[Replica], log: Log, lives: list[Any]) -> None:
    """Write what the jobs do in any order of theirs, and let the replicas follow."""
    waiting = [deque(records) for records in lives]
    while any(waiting) or any(replica.is_behind for replica in replicas):
        mine = random.choice(waiting)
        for _ in range(random.randrange(4)):
            if mine:
                records = log.append(mine.popleft())
                for replica in replicas:
                    replica.give(records)
        for replica in replicas:
            await replica.go_on(random)
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_the_pace_a_reader_that_is_cut_has_all_once_and_in_order(
    seed: int, tmp_path: Path
) -> None:
    random, log = Random(seed), Log()
    lives = [life(random, job_id) for job_id in JOBS]
    a, b = Replica(tmp_path / "a.sqlite"), Replica(tmp_path / "b.sqlite")
    async with serving(a) as at_a, serving(b) as at_b:
        for replica in (a, b):
            replica.fold(*Log().append(*(each[0] for each in lives)))
        log.append(*(each[0] for each in lives))
        writing = asyncio.create_task(go_on(random, [a, b], log, [each[1:] for each in lives]))
        got = await read(Random(seed + 1_000), [at_a, at_b])
        await writing
    for job_id, records in zip(JOBS, lives, strict=True):
        mine = [
            each for each in got if job_id in (each.data.get("job_id"), each.data.get("of_job"))
        ]
        assert texts(mine) == expected(records), job_id
        assert [each.event for each in mine[-2:]] == ["status", "end"]
        assert sum(each.event == "end" for each in mine) == 1
        assert _status(mine[-2].data) == _status_of(records[-1])
        steps = [each.data["name"] for each in mine if each.event == "step"]
        assert sorted(steps) == sorted(r.step.id for r in records if isinstance(r, StepOf))


def _whose(got: Got) -> str:
    """The job of an event; a shared effect names the job that makes it."""
    return str(got.data.get("of_job", got.data["job_id"]))


def _status(shown: dict[str, Any]) -> tuple[str, str]:
    return shown["job_id"], shown["status"]


def _status_of(job: Job) -> tuple[str, str]:
    return job.job_id, job.status


@pytest.mark.parametrize("seed", range(12))
async def test_a_workflow_whose_jobs_come_at_any_pace_has_all_that_they_said(
    seed: int, tmp_path: Path
) -> None:
    random, log = Random(seed), Log()
    lives = [[_in_workflow(each) for each in life(random, job_id)] for job_id in JOBS]
    flow = Workflow(ROOT, "acme", ROOT, "draft_reply", "running", {"running": 1}, 1)
    begin = [lives[0].pop(0), flow]
    more = [lives[0], *([replace(flow, kept=2 + n), *each] for n, each in enumerate(lives[1:]))]
    ends = replace(flow, jobs={"succeeded": 3}, status="succeeded", outcome="succeeded")
    a, b = Replica(tmp_path / "a.sqlite"), Replica(tmp_path / "b.sqlite")
    async with serving(a) as at_a, serving(b) as at_b:
        for replica in (a, b):
            replica.fold(*Log().append(*begin))
        log.append(*begin)

        async def write() -> None:
            await go_on(random, [a, b], log, more)
            await go_on(random, [a, b], log, [[ends]])

        writing = asyncio.create_task(write())
        got = await read(Random(seed + 1_000), [at_a, at_b], f"/v1/workflows/{ROOT}/events")
        await writing
    for job_id, records in zip(JOBS, lives, strict=True):
        mine = [each for each in got if each.data.get("job_id") == job_id]
        assert texts(mine) == expected(records), job_id
    assert [each.event for each in got].count("end") == 1
    assert got[-1].data["outcome"] == "succeeded"


def _in_workflow(record: Any) -> Any:
    if not isinstance(record, Job):
        return record
    return replace(record, workflow_id=ROOT, depth=int(record.job_id != ROOT))
