"""The topic `jobs` is the dispatcher's state: what stands there, and what is written there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.serde.codec import JOB
from streams.serde.job_states import PENDING, SUCCEEDED
from streams.serde.records import Job

LARGEST = 1_048_588


def written(desk: Desk, job_id: str) -> list[Job]:
    """Every record of a job."""
    found = [record for record in desk.driver.output("jobs") if record.key == job_id.encode()]
    return [JOB.decode(record.value) for record in found]


def test_an_end_is_published_even_if_the_id_lives_again_in_its_transaction() -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    start = desk.driver.now
    job_id = desk.event("t1", at=start)
    with desk.held_back(logged=True):
        worker.end(desk.lease(job_id), "succeeded", result="1")
        desk.event("t1", at=start + desk.topology.window_ms)
    ends = [job for job in written(desk, job_id) if job.status == SUCCEEDED]
    assert [(job.incarnation, job.result) for job in ends] == [(1, "1")]
    assert desk.job(job_id).incarnation == 2
    desk.driver.restart("dispatcher")
    worker.heartbeat()
    worker.end(desk.lease(job_id), "succeeded", result="2")
    assert desk.job(job_id).result == "2"


def an_unknown_id(job: Job) -> tuple[bytes, bytes]:
    return b"job_other", JOB.encode(job)


def without_a_key(job: Job) -> tuple[bytes, bytes]:
    return b"", JOB.encode(job)


def before_all_time(job: Job) -> tuple[bytes, bytes]:
    return job.job_id.encode(), JOB.encode(
        dataclasses.replace(job, status=SUCCEEDED, updated_at=-1)
    )


def of_no_state(job: Job) -> tuple[bytes, bytes]:
    status: str = "asleep"
    return job.job_id.encode(), JOB.encode(dataclasses.replace(job, status=status))  # type: ignore[arg-type]


def of_no_priority(job: Job) -> tuple[bytes, bytes]:
    return job.job_id.encode(), JOB.encode(dataclasses.replace(job, priority="lost"))


def of_no_pool(job: Job) -> tuple[bytes, bytes]:
    return job.job_id.encode(), JOB.encode(dataclasses.replace(job, pool="lost"))


def of_the_index(job: Job) -> tuple[bytes, bytes]:
    return b"\0l" + job.job_id.encode(), b"[]"


def no_avro(job: Job) -> tuple[bytes, bytes]:
    return b"\xff\xfe", b"no job"


@pytest.mark.parametrize(
    "garbage",
    [
        an_unknown_id,
        without_a_key,
        before_all_time,
        of_no_state,
        of_no_priority,
        of_no_pool,
        of_the_index,
        no_avro,
    ],
)
def test_a_dispatcher_starts_and_leases_whatever_stands_on_the_topic(
    garbage: Callable[[Job], tuple[bytes, bytes]],
) -> None:
    desk = Desk()
    desk.submit("job_1")
    strange = dataclasses.replace(desk.job("job_1"), job_id="job_strange")
    assert strange.status == PENDING
    desk.driver.pipe("jobs", *garbage(strange))
    desk.driver.restart("dispatcher")
    desk.driver.advance(1)
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    desk.submit("job_2")
    for job_id in ("job_1", "job_2"):
        worker.end(desk.lease(job_id), "succeeded")
        assert desk.job(job_id).status == SUCCEEDED


@pytest.mark.parametrize("left", [20, 250])
def test_a_job_that_almost_fills_a_record_keeps_no_other_from_its_lease(left: int) -> None:
    desk = Desk()
    worker = ScriptedWorker(desk)
    desk.submit("job_small")
    size = len(JOB.encode(desk.job("job_small"))) + len("job_large")
    desk.submit("job_large", input="1" * (LARGEST - size - left))
    desk.submit("job_next")
    worker.heartbeat()
    desk.driver.advance(1)
    assert desk.lease("job_next").attempt == 1
    assert {letter.reason for letter in desk.dead_letters()} == {"job_too_large"}
