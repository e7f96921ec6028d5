"""Timelines of what the stages themselves wrote: all spans are within those they are part of."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.callers import Operator
from support.whole_flow import TICKETS, Flow, flow, play

from streams.api.causes.table import LISTING
from streams.api.read_model.database import Database
from streams.api.read_model.projections import Changes, project
from streams.api.rows.paging import PageQuery
from streams.api.tables import TABLES
from streams.api.timelines.timeline import event_page, job_page
from streams.api.timelines.walk import Asked, Start
from streams.runtime.processor import Record
from streams.serde.ids import event_job_id
from streams.topology.load import load

ALL = Asked(Start(), 1_000)


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = Database(tmp_path / "m.sqlite").open_writer()
    yield opened
    opened.close()


def fold(rows: sqlite3.Connection, at: Flow) -> None:
    """Fold everything that the stages wrote."""
    batch: dict[str, Changes] = {}
    for table in TABLES:
        for offset, each in enumerate(at.driver.output(table.topic)):
            written = (each.partition, offset, each.timestamp, each.key, each.value)
            project(Record(table.topic, *written), batch)
    for changes in batch.values():
        changes.write(rows)


def spans(found: dict[str, Any] | None, kind: str) -> list[dict[str, Any]]:
    assert found is not None
    return [span for span in found["spans"] if span["kind"] == kind]


async def test_what_happened_is_drawn_from_the_topics_alone(rows: sqlite3.Connection) -> None:
    async with flow() as at:
        await play(at)
        fold(rows, at)
    event_ids = [id_ for (id_,) in rows.execute("SELECT event_id FROM events")]
    assert len(event_ids) == len({ticket[:2] for ticket in TICKETS})
    for event_id in event_ids:
        found = event_page(rows, event_id, ALL, load())
        (job,) = spans(found, "job")
        assert (job["parent"], spans(found, "received")[0]["id"]) == (event_id, event_id)
        runs = spans(found, "run")
        assert runs
        assert all(run["exact"] for run in runs)
        for run in runs:
            assert job["from"] <= run["from"] <= run["to"] <= job["to"]
        for effect in spans(found, "effect"):
            assert effect["parent"] in {run["id"] for run in runs}
            assert effect["status"] == "done"
            assert job["from"] <= effect["from"] <= effect["to"] <= job["to"]
        assert [step["name"] for step in spans(found, "step")][:1] in ([], ["draft"])
    retried = job_page(rows, event_job_id("acme", "zendesk", "2"), ALL, load())
    assert [run["status"] for run in spans(retried, "run")] == ["failed", "succeeded"]
    assert [span["name"] for span in spans(retried, "queued")] == ["waits for run 2"]
    failed = job_page(rows, event_job_id("initech", "zendesk", "3"), ALL, load())
    assert [run["failed"] for run in spans(failed, "run")] == [True]


async def test_the_one_dead_job_has_a_cause(rows: sqlite3.Connection) -> None:
    async with flow() as at:
        await play(at)
        fold(rows, at)
    (cause,) = LISTING.shown(rows, PageQuery(50), Operator()).items
    assert (cause["error_class"], cause["type"]) == ("PermanentError", "draft_reply")
    assert (cause["open"], cause["total"], cause["tenants"]["first"]) == (1, 1, ["initech"])
