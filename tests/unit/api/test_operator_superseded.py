"""Which job runs for an event, and for which events a job runs, as the read model shows it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from support.operator_cluster import event_job, make_event

from streams.api.events.story import shown_event
from streams.api.jobs.superseded import taker_of
from streams.api.jobs.table import shown_job
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.runtime.processor import Record
from streams.serde.codec import ENVELOPE, JOB
from streams.serde.records import Envelope, Job
from streams.topology.load import load

TOPOLOGY = load()


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def fold(connection: sqlite3.Connection, *values: Envelope | Job) -> None:
    batch: dict[str, Changes] = {}
    for offset, value in enumerate(values):
        if isinstance(value, Job):
            project(Record("jobs", 0, offset, 1_700_000_000_500, b"", JOB.encode(value)), batch)
        else:
            record = ENVELOPE.encode(value)
            project(Record("events", 0, offset, 1_700_000_000_500, b"", record), batch)
    for changes in batch.values():
        changes.write(connection)


def window(connection: sqlite3.Connection, number: int, tenant: str = "acme") -> list[Job]:
    """Jobs of events, of which each took the place of the one before it."""
    made = [make_event(f"t-{n}", tenant_id=tenant) for n in range(number)]
    jobs = [replace(event_job(event), created_at=n) for n, event in enumerate(made)]
    jobs = [
        replace(job, status="cancelled", superseded_by=taker.job_id)
        for job, taker in pairwise(jobs)
    ] + [replace(jobs[-1], status="scheduled")]
    fold(connection, *made, *jobs)
    return jobs


def test_an_event_shows_the_job_that_took_it_in_the_end(connection: sqlite3.Connection) -> None:
    jobs = window(connection, 4)
    for job in jobs[:-1]:
        assert taker_of(connection, job.job_id, "acme") == jobs[-1].job_id
        assert job.event is not None
        shown = shown_event(connection, job.event.event_id, TOPOLOGY)
        assert shown is not None
        assert (shown["taken_by"], shown["job_id"]) == (jobs[-1].job_id, job.job_id)
        assert shown["job"]["superseded_by"] == job.superseded_by
    last = shown_event(connection, "evt_t-3", TOPOLOGY)
    assert last is not None
    assert last["taken_by"] is None


def test_a_job_that_has_not_begun_shows_the_events_that_it_has_so_far(
    connection: sqlite3.Connection,
) -> None:
    jobs = window(connection, 4)
    shown = shown_job(connection, jobs[-1].job_id, TOPOLOGY)
    assert shown is not None
    assert shown["event_ids"] == ["evt_t-0", "evt_t-1", "evt_t-2", "evt_t-3"]
    assert shown["event_count"] == 4


def test_a_job_that_has_begun_shows_what_its_record_names(connection: sqlite3.Connection) -> None:
    jobs = window(connection, 3)
    begun = replace(
        jobs[-1], status="running", run_id="run_1", event_ids=("evt_t-1", "evt_t-2"), event_count=7
    )
    fold(connection, begun)
    shown = shown_job(connection, begun.job_id, TOPOLOGY)
    assert shown is not None
    assert (shown["event_ids"], shown["event_count"]) == (["evt_t-1", "evt_t-2"], 7)
    first = shown_job(connection, jobs[0].job_id, TOPOLOGY)
    assert first is not None
    assert (first["event_ids"], first["event_count"]) == (["evt_t-0"], 1)


def test_a_long_window_is_followed(connection: sqlite3.Connection) -> None:
    jobs = window(connection, 1_500)
    assert taker_of(connection, jobs[0].job_id, "acme") == jobs[-1].job_id
    shown = shown_job(connection, jobs[-1].job_id, TOPOLOGY)
    assert shown is not None
    assert len(shown["event_ids"]) == 1_000


def test_nothing_of_another_tenant_is_shown(connection: sqlite3.Connection) -> None:
    own = event_job(make_event("t-0"))
    theirs = replace(event_job(make_event("t-1", tenant_id="globex")), superseded_by=own.job_id)
    fold(connection, replace(own, status="scheduled"), theirs)
    shown = shown_job(connection, own.job_id, TOPOLOGY)
    assert shown is not None
    assert shown["event_ids"] == ["evt_t-0"]
    assert taker_of(connection, theirs.job_id, "acme") == theirs.job_id


def test_a_job_that_waits_for_another_says_for_which(connection: sqlite3.Connection) -> None:
    job = replace(event_job(make_event("t-0")), status="scheduled", queued_behind="job_x")
    fold(connection, job)
    shown = shown_job(connection, job.job_id, TOPOLOGY)
    assert shown is not None
    assert shown["why"]["reason"] == "singleton"
    assert "job_x" in shown["why"]["detail"]
