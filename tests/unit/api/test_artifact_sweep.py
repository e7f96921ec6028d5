"""A sweep removes what nobody needs any more, and keeps what a job needs that is kept."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.operator_cluster import make_job
from support.operator_desk import OperatorDesk

from streams import user_json
from streams.api.artifacts import sweep as artifact_sweep
from streams.api.artifacts.sweep import sweep, sweep_for_ever
from streams.api.read_model.database import Database
from streams.api.steps import table as steps
from streams.artifacts.store import Entry, NotPermitted, StoreUnavailable
from streams.serde.codec import JOB, STEP_RESULT, TENANT
from streams.serde.keys import checkpoint_key, tenant_key
from streams.serde.records import StepResult, TenantRecord
from streams.testing.memory_store import MemoryStore

DAY_MS = 86_400_000
NOW = 10 * DAY_MS


class Store(MemoryStore):
    """A store whose objects are as old as they are said to be."""

    blocks = True

    def __init__(self, *paths: str, written_at: int = 0) -> None:
        super().__init__()
        self.written_at = written_at
        for path in paths:
            self.put(path, [b"sealed"])

    def entries(self, folder: str = "") -> Iterator[Entry]:
        for each in super().entries(folder):
            yield Entry(each.path, each.size, self.written_at)

    @property
    def paths(self) -> set[str]:
        return {each.path for each in self.entries()}


class Desk(OperatorDesk):
    """A read model that a test fills."""

    is_ready = True

    def ready(self) -> bool:
        return self.is_ready

    def job(self, job_id: str, *results: StepResult, tenant_id: str = "acme") -> None:
        job = make_job(job_id, tenant_id)
        self.project([("jobs", b"", JOB.encode(job))])
        for result in results:
            key = checkpoint_key(job_id, job.incarnation, result.id)
            self.project([("dispatcher.checkpoints.changelog", key, STEP_RESULT.encode(result))])

    def purge(self, job_id: str, *names: str) -> None:
        self.project([("jobs", job_id.encode(), None)])
        keys = [checkpoint_key(job_id, 1, name) for name in names]
        self.project([("dispatcher.checkpoints.changelog", key, None) for key in keys])


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    found = Database(tmp_path / "m.sqlite").open_writer()
    yield found
    found.close()


@pytest.fixture
def desk(rows: sqlite3.Connection) -> Any:
    return Desk(rows)


def large(name: str, kind: Any, of: str) -> StepResult:
    """What stands in the place of a large value that a job has of another."""
    reference = {"artifact": "art", "of": of, "name": "n", "size": 1, "content_type": "t"}
    return StepResult(name, kind, value=user_json.write({"$artifact": reference}).decode())


async def test_a_large_value_of_a_purged_job_stays_while_a_job_is_kept_that_has_it(
    desk: Any,
) -> None:
    """The job waited for the purged one, or repeats it, and needs the value in each of its runs."""
    store = Store("acme/job_old/art", "acme/job_gone/art", "globex/job_old/art")
    desk.job("job_long", large("job", "job", "job_old"), StepResult("a", "step", value="1"))
    assert await sweep(desk, store, NOW) == 2
    assert store.paths == {"acme/job_old/art"}
    desk.purge("job_long", "job", "a")
    assert await sweep(desk, store, NOW) == 1
    assert store.paths == set()


def test_a_sweep_looks_at_no_job_that_has_no_such_value(rows: sqlite3.Connection) -> None:
    statements: list[str] = []
    rows.set_trace_callback(statements.append)
    steps.any_has_artifact_of(rows, "acme", "job_old")
    rows.set_trace_callback(None)
    plan = rows.execute(f"EXPLAIN QUERY PLAN {statements[0]}").fetchall()
    first, second = (row[3] for row in plan)
    assert "steps_of_artifact (artifact_of=?)" in first
    assert "jobs_1 (job_id=?)" in second


@pytest.mark.parametrize(
    "value",
    [
        '{"$artifact":null}',
        '{"$artifact":{"value":{"of":"job_old"}}}',
        '{"$artifact":{"of":7}}',
        '{"$artifact":' + "[" * 500 + "]" * 500 + "}",
    ],
)
async def test_a_value_that_looks_like_a_reference_keeps_nothing(desk: Any, value: str) -> None:
    desk.job("job_long", StepResult("a", "step", value=value))
    store = Store("acme/job_old/art")
    assert await sweep(desk, store, NOW) == 1


async def test_young_ones_of_an_erased_tenant_are_removed_and_others_stay(desk: Any) -> None:
    body = user_json.write({"note": "case 4711", "by": "operator", "at": 1}).decode()
    mark = TenantRecord("acme", "erasure", "", True, body, updated_at=1)
    key = tenant_key("acme", "erasure", "")
    desk.job("job_a")
    desk.project([("tenants", key, TENANT.encode(mark))])
    store = Store("acme/job_a/art", "globex/job_young/art", written_at=NOW - 1)
    assert await sweep(desk, store, NOW) == 1
    assert store.paths == {"globex/job_young/art"}


async def test_what_a_killed_worker_left_unfinished_is_removed_once_it_is_old(desk: Any) -> None:
    desk.job("job_a")
    for written_at, left in ((NOW - 1, 2), (0, 1)):
        store = Store("acme/job_a/art", "acme/job_a/.unfinished-x", written_at=written_at)
        await sweep(desk, store, NOW)
        assert len(store.paths) == left


async def test_what_is_of_somebody_else_stays_and_hides_nothing(desk: Any) -> None:
    strange = {"notes.txt", "acme/job_\udcff/art", "a/b/c/d"}
    store = Store(*strange, "acme/job_gone/art")
    assert await sweep(desk, store, NOW) == 1
    assert store.paths == strange


class Stubborn(Store):
    """A store that refuses to remove some of its objects, such as files of another user."""

    def __init__(
        self, *paths: str, kept: str, kind: type[StoreUnavailable] = StoreUnavailable
    ) -> None:
        super().__init__(*paths)
        self.kept, self.asked, self.kind = kept, 0, kind

    def remove(self, path: str) -> None:
        self.asked += 1
        if self.kept in path:
            raise self.kind(f"cannot remove the artifact at {path}: not permitted")
        super().remove(path)


async def test_one_that_cannot_be_removed_keeps_no_other(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_sweep, "_AT_ONCE", 2)
    paths = ("acme/job_a/kept", "acme/job_b/art", "globex/job_c/art", "globex/job_d/art")
    store = Stubborn(*paths, kept="kept")
    with pytest.raises(StoreUnavailable, match="job_a/kept"):
        await sweep(desk, store, NOW)
    assert store.paths == {"acme/job_a/kept"}
    store = Stubborn(*paths, kept="kept")
    with pytest.raises(StoreUnavailable, match="job_a/kept"):
        await artifact_sweep.remove_of(store, "acme/")
    assert store.paths == {"acme/job_a/kept", "globex/job_c/art", "globex/job_d/art"}


async def test_a_job_whose_many_files_are_another_user_s_keeps_no_other(desk: Any) -> None:
    own = [f"acme/job_a/kept{number}" for number in range(100)]
    store = Stubborn(*own, "globex/job_c/art", kept="kept", kind=NotPermitted)
    with pytest.raises(NotPermitted):
        await sweep(desk, store, NOW)
    assert store.paths == set(own)


async def test_a_store_that_removes_nothing_is_not_asked_for_all(desk: Any) -> None:
    store = Stubborn(*(f"acme/job_{number}/art" for number in range(100)), kept="art")
    with pytest.raises(StoreUnavailable):
        await sweep(desk, store, NOW)
    assert store.asked < 50


async def test_after_a_sweep_that_failed_the_next_one_sweeps(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read model may be rebuilt while it is asked."""
    monkeypatch.setattr(artifact_sweep, "EVERY_SECONDS", 0.001)
    store, query, failed = Store("acme/job_gone/art"), desk.query, list[int]()

    async def once(look: Any) -> Any:
        if not failed:
            failed.append(1)
            raise sqlite3.OperationalError("no such table: jobs")
        return await query(look)

    desk.query = once
    sweeping = asyncio.create_task(sweep_for_ever(desk, store))
    async with asyncio.timeout(60):
        while store.paths and not sweeping.done():
            await asyncio.sleep(0.001)
    sweeping.cancel()
    assert store.paths == set()


async def test_the_first_sweep_does_not_wait_for_an_hour(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator may never live that long: `tidegate dev` of an afternoon, for example."""
    waits = list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 4:
            raise asyncio.CancelledError

    monkeypatch.setattr("asyncio.sleep", sleep)
    desk.is_ready = False
    with pytest.raises(asyncio.CancelledError):
        await sweep_for_ever(desk, Store())
    assert max(waits) < 3_600
