"""The memo of written records saves work and is never wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.operator_cluster import make_job as job

from streams.errors import DecodeError
from streams.serde.codec import JOB
from streams.serde.decoded_cache import DecodedCache


def test_what_was_written_last_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    memo = DecodedCache(JOB)
    written = job("job_1")
    value = memo.encode("job_1", written)
    monkeypatch.setattr(JOB, "decode", _never)
    assert memo.decode("job_1", bytes(bytearray(value))) is written


def test_other_bytes_of_the_same_job_are_decoded() -> None:
    """So it is after an abort, and where another process wrote it meanwhile."""
    memo = DecodedCache(JOB)
    before = job("job_1")
    stored = memo.encode("job_1", before)
    memo.encode("job_1", replace(before, status="running"))
    assert memo.decode("job_1", stored) == before


def test_bytes_that_are_no_job_are_told_so_whatever_was_written() -> None:
    memo = DecodedCache(JOB)
    memo.encode("job_1", job("job_1"))
    with pytest.raises(DecodeError):
        memo.decode("job_1", b"{}")


def test_it_forgets_the_oldest_the_large_and_the_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    memo = DecodedCache(JOB, most=3)
    large = replace(job("job_0"), input="x" * 5_000)
    values = {
        j.job_id: memo.encode(j.job_id, j) for j in (large, *(job(f"job_{n}") for n in range(1, 6)))
    }
    memo.forget("job_5")
    decoded: list[bytes] = []
    monkeypatch.setattr(JOB, "decode", decoded.append)
    for job_id, value in values.items():
        memo.decode(job_id, value)
    assert decoded == [values[job_id] for job_id in ("job_0", "job_1", "job_2", "job_5")]


def _never(data: bytes) -> None:
    raise AssertionError(f"decoded {len(data)} bytes")
