"""A part that is added to the dispatcher: a class, and its place in the list of parts."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from typing import ClassVar

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.dispatcher.part import Part
from streams.dispatcher.step import Step
from streams.dispatcher.transitions import give_back
from streams.runtime.part import handles, key_spaces, reads
from streams.runtime.processor import Record
from streams.serde.keys import after
from streams.serde.records import Ended, Job

_LIVE, _HEARD = b"0", b"1"


class Watch(Part):
    """Keeps a key for each live job, and one for each record of two inputs that others read too."""

    keys: ClassVar = {_LIVE: "live jobs", _HEARD: "records that were heard"}

    @reads("events")
    def event(self, step: Step, record: Record) -> None:
        live = len(list(step.store.range(_LIVE, after(_LIVE))))
        step.store.put(_HEARD + b"event", str(live).encode())

    @reads("tenants")
    def tenant(self, step: Step, record: Record) -> None:
        step.store.put(_HEARD + b"tenant", record.key or b"")

    @handles("set_aside")
    def set_aside(self, step: Step, job: Job, body: Ended) -> None:
        give_back(step, job, body.error)

    def admitted(self, step: Step, job: Job) -> None:
        step.store.put(_LIVE + job.job_id.encode(), b"")

    def ended(self, step: Step, job: Job) -> None:
        now = step.table.get(job.job_id)
        assert now == job
        step.store.delete(_LIVE + job.job_id.encode())


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    stage = import_module("streams.dispatcher.stage")
    parts = (*stage.PARTS, Watch)
    key_spaces(parts)
    monkeypatch.setattr(stage, "PARTS", parts)
    return Desk()


def kept(desk: Desk, prefix: bytes) -> dict[str, bytes]:
    store = desk.driver.run_of("dispatcher").tasks[0].stores["parts"]
    return {key[1:].decode(): value for key, value in store.range(prefix, after(prefix))}


def test_it_hears_inputs_after_the_parts_before_it(desk: Desk) -> None:
    desk.event("t1")
    desk.tenant("globex", disabled=True)
    assert kept(desk, _HEARD).keys() == {"event", "tenant"}
    assert kept(desk, _HEARD)["event"] == b"1"


@pytest.mark.parametrize("status", ["succeeded", "failed", "cancelled"])
def test_it_cleans_up_when_a_run_ends_its_job(desk: Desk, status: str) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "retry", after=0, error="TransientError: x")
    assert kept(desk, _LIVE).keys() == {job_id}
    worker.end(desk.lease(job_id), status, error="ValueError: x")
    assert desk.job(job_id).status == status
    assert kept(desk, _LIVE) == {}


def test_it_cleans_up_when_a_job_ends_without_a_run(desk: Desk) -> None:
    cancelled, erased = desk.event("t1"), desk.event("t2", "globex")
    desk.cancel(cancelled)
    assert kept(desk, _LIVE).keys() == {erased}
    desk.tenant("globex", kind="erasure", disabled=True)
    desk.driver.advance(1)
    assert kept(desk, _LIVE) == {}


def test_a_job_in_review_has_not_ended(desk: Desk) -> None:
    worker = ScriptedWorker(desk, backoff=())
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.claim(desk.lease(job_id))
    worker.end(desk.lease(job_id), "retry", error="TimeoutError: x")
    assert worker.claim(desk.lease(job_id)).kind == "review"
    worker.end(desk.lease(job_id), "review", error="unknown")
    assert desk.job(job_id).status == "needs_review"
    assert kept(desk, _LIVE).keys() == {job_id}


def test_a_run_may_end_in_a_way_of_its_own_and_only_while_its_lease_lives(desk: Desk) -> None:
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    first = desk.lease(job_id)
    end = Ended(first.run_id, "parked", None, "not now", None, None)
    end = dataclasses.replace(end, status="set_aside")  # type: ignore[arg-type]
    desk.logged(end, job_id, first.epoch)
    again = desk.lease(job_id)
    assert (again.epoch, again.attempt) == (2, 1)
    desk.logged(end, job_id, first.epoch)
    assert desk.job(job_id).epoch == 2
    assert [run.error for run in desk.job(job_id).history] == ["not now"]
