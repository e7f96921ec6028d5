"""Of a batch, a job's newest state alone is decoded."""

from __future__ import annotations

from streams.operator.session import newest
from streams.runtime.processor import Record


def record(topic: str, offset: int, key: bytes) -> Record:
    return Record(topic, 0, offset, 1_000, key, b"v")


def test_of_each_job_the_last_state_is_kept_and_of_other_topics_every_record() -> None:
    records = [
        record("jobs", 0, b"a"), record("jobs", 1, b"b"), record("dlq", 0, b"a"),
        record("jobs", 2, b"a"), record("dlq", 1, b"a"), record("jobs", 3, b"a"),
    ]  # fmt: skip
    kept = [(r.topic, r.offset) for r in newest(records)]
    assert sorted(kept) == [("dlq", 0), ("dlq", 1), ("jobs", 1), ("jobs", 3)]
