"""Committed jobs are read beside the stage's thread, and never while their stores are closed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.operator_cluster import make_job

from streams.link.committed_jobs import OwnedJobs, Stores
from streams.link.requests import NotOwned
from streams.serde.codec import JOB, STEP_RESULT
from streams.serde.keys import checkpoint_key
from streams.serde.records import StepResult
from streams.state.key_value import KeyValueBackend
from streams.state.rocksdb import RocksTables
from streams.state.rocksdb_memory import RocksMemory
from streams.state.store import Checkpoint

JOB_A = make_job("job_a", status="running", worker_id="w:1", epoch=1, run_id="run_1")


def test_jobs_and_what_waits_left_are_read_from_the_stores() -> None:
    left = StepResult("paid", "event", value="{}")
    large = make_job("job_b", input='"' + "x" * 10_000 + '"')
    jobs = {job.job_id.encode(): JOB.encode(job) for job in (JOB_A, large)}
    steps = {checkpoint_key("job_a", 1, "paid"): STEP_RESULT.encode(left)}
    owned = OwnedJobs()
    owned.opened(3, Stores(jobs.get, steps.get))
    assert (owned.job(3, "job_a"), owned.job(3, "job_b"), owned.job(3, "none")) == (
        JOB_A,
        large,
        None,
    )
    assert owned.left(3, JOB_A, "paid") == left
    assert owned.left(3, JOB_A, "other") is None
    jobs[b"job_a"] = JOB.encode(make_job("job_a", epoch=2))
    assert owned.job(3, "job_a") == make_job("job_a", epoch=2)


def test_an_id_that_is_no_jobs_reads_no_entry_of_an_index() -> None:
    """The keys of an index begin with NUL, and stand in the store of the jobs."""
    owned = OwnedJobs()
    owned.opened(3, Stores({b"\0due": b"no job"}.get, lambda _: None))
    assert owned.job(3, "\0due") is None


def test_a_partition_that_is_not_opened_or_closed_again_is_not_owned() -> None:
    owned = OwnedJobs()
    with pytest.raises(NotOwned):
        owned.job(3, "job_a")
    owned.opened(3, Stores(lambda _: None, lambda _: None))
    assert owned.job(3, "job_a") is None
    owned.closed(3)
    owned.closed(3)
    with pytest.raises(NotOwned):
        owned.left(3, JOB_A, "paid")


def test_a_store_on_disk_is_closed_whole_while_others_read_it(tmp_path: Path) -> None:
    """A reader in the middle of a close would have the store count as damaged."""
    memory, errors = RocksMemory(), list[Exception]()
    for number in range(20):
        path = tmp_path / str(number)
        backend = KeyValueBackend(RocksTables(path, "jobs", memory))
        backend.write({b"job_a": JOB.encode(JOB_A)}, Checkpoint(1, 1))
        owned = OwnedJobs()
        owned.opened(0, Stores(backend.get, backend.get))
        began = threading.Event()

        def read(owned: OwnedJobs = owned, began: threading.Event = began) -> None:
            try:
                while True:
                    assert owned.job(0, "job_a") == JOB_A
                    began.set()
            except NotOwned:
                return
            except Exception as error:
                errors.append(error)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        assert began.wait(10)
        owned.closed(0)
        backend.close()
        for reader in readers:
            reader.join(10)
        assert not (path / "DAMAGED").exists()
        RocksTables(path, "jobs", memory).close()
    assert errors == []
