"""Whatever its rows went through, a restored store has the index of the rows that it holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from support.dispatching import Desk, ScriptedWorker

from streams.dispatcher import live_index
from streams.dispatcher.live_index import ENDED, entries
from streams.runtime.restoring_store import Restoring
from streams.runtime.topics import Changelog
from streams.serde.codec import JOB
from streams.serde.records import Job
from streams.state.indexed import IndexedBackend
from streams.state.memory import MemoryTables
from streams.state.overlay import Overlay

CHANGELOG = Changelog("jobs", "id", 1_000)
WRITTEN_AT = 1_900_000_000_000


@dataclass(frozen=True)
class Read:
    """A record of `jobs` as the client gives it."""

    row: tuple[bytes, bytes | None]

    def key(self) -> bytes:
        return self.row[0]

    def value(self) -> bytes | None:
        return self.row[1]

    def timestamp(self) -> tuple[int, int]:
        return 1, WRITTEN_AT


@pytest.fixture(scope="module")
def ended() -> Job:
    desk = Desk()
    worker = ScriptedWorker(desk)
    worker.heartbeat()
    job_id = desk.event("t1")
    worker.end(desk.lease(job_id), "succeeded")
    return desk.job(job_id)


def restored(*sittings: Sequence[Sequence[tuple[bytes, bytes | None]]]) -> Overlay:
    """The store after sittings, each of several reads that are folded in together."""
    backend, offset = IndexedBackend(MemoryTables(), live_index.derive), 0
    for reads in sittings:
        store = Restoring("jobs", 0, backend, CHANGELOG, next=offset, target=10)
        for rows in reads:
            store.take([Read(row) for row in rows])  # type: ignore[misc]
            offset += len(rows)
        store.fold(offset, 0)
    return Overlay(backend)


def shape(store: Overlay) -> tuple[list[str], list[tuple[int, str]]]:
    """The live jobs, and the ends."""
    ends = [(entry.at, entry.name[0]) for entry in ENDED.due(store, 2**62, 10)]
    return [job_id for job_id, _ in entries(store)], ends


@pytest.mark.parametrize("together", [True, False])
def test_the_index_is_that_of_the_last_rows_in_one_sitting_and_in_many(
    ended: Job, together: bool
) -> None:
    key, end = ended.job_id.encode(), ended.updated_at
    later = dataclasses.replace(ended, updated_at=end + 5)
    again = dataclasses.replace(ended, status="pending", incarnation=2)
    history = [
        ((key, JOB.encode(again)), ([ended.job_id], [])),
        ((key, JOB.encode(ended)), ([], [(end, ended.job_id)])),
        ((key, JOB.encode(later)), ([], [(end + 5, ended.job_id)])),
        ((key, b"garbage"), ([], [])),
        ((key, JOB.encode(ended)), ([], [(end, ended.job_id)])),
        ((key, JOB.encode(again)), ([ended.job_id], [])),
        ((key, None), ([], [])),
    ]
    for until in range(1, len(history) + 1):
        rows = [row for row, _ in history[:until]]
        reads = [[row] for row in rows]
        store = restored(reads) if together else restored(*([read] for read in reads))
        assert shape(store) == history[until - 1][1], until


def test_what_its_writers_clock_said_is_not_the_stream_time(ended: Job) -> None:
    store = restored([[(ended.job_id.encode(), JOB.encode(ended))]])
    checkpoint = store.backend.checkpoint()
    assert checkpoint is not None
    assert (checkpoint.offset, checkpoint.stream_time) == (1, 0)
