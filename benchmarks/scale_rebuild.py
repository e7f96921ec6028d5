"""`rebuilt` of bench_scale: how soon the store of jobs is there again, from its topic alone."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

from harness import Result

from streams import new_jobs
from streams.dispatcher import live_index
from streams.runtime.backends import fold
from streams.serde.codec import JOB
from streams.serde.ids import new_id
from streams.serde.job_states import SUCCEEDED
from streams.serde.records import Submit
from streams.state.indexed import IndexedBackend
from streams.state.rocksdb import RocksTables
from streams.state.rocksdb_memory import RocksMemory
from streams.topology.load import load

_AT_ONCE = 5_000
_NOW = 1_790_000_000_000


def rebuilt(jobs: int) -> list[tuple[Result, float | None]]:
    """Fold the records of so many finished jobs, with their index; a broker's part is left out."""
    records = list(finished(jobs))
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        tables = RocksTables(Path(folder) / "jobs", "bench", RocksMemory())
        backend = IndexedBackend(tables, live_index.LIVE_AND_ENDED.derive)
        began = time.perf_counter()
        for start in range(0, jobs, _AT_ONCE):
            changes = backend.from_changelog(islice(records, start, start + _AT_ONCE))
            fold(backend, changes, _NOW, start + _AT_ONCE, _NOW)
        rate = jobs / (time.perf_counter() - began)
        tables.close()
    return [(Result(f"{jobs:,} finished jobs", "rebuilt from the topic", rate, "jobs/s"), None)]


def finished(jobs: int) -> Iterator[tuple[bytes, bytes]]:
    topology = load()
    body = '{"ticket":"t1"}'
    submit = Submit("draft_reply", body, None, None, None, None, None, "ops", b"h", None)
    for number in range(jobs):
        job = new_jobs.from_submission(
            new_id("job"),
            f"tnt_{number % 1_000:06d}",
            submit,
            topology,
            place=new_jobs.FIRST,
            at=_NOW,
            now=_NOW,
        )
        job = replace(job, status=SUCCEEDED, attempts=1, epoch=1, result='{"draft":"Hello"}')
        yield job.job_id.encode(), JOB.encode(job)
