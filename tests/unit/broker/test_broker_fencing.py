"""When the controller, alone before a restart, has given the former broker up."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from streams.broker import fencing
from streams.broker.fencing import await_fenced, metadata_log
from streams.broker.process import KeptProcess

EPOCH = bytes(7) + b"\x2b"
FENCED = b"\x01\x11\x00\x00\x00\x00\x01" + EPOCH + b"\x01\x00\x01\x01"
UNFENCED = FENCED[:-1] + b"\xff"
STARTED = "[KafkaRaftServer nodeId=1] Kafka Server started"
FENCING = "Fencing broker 1 at epoch 43 because its session has timed out."
FAR, SOON = 60.0, 0.5


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    segment = tmp_path / "__cluster_metadata-0" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.write_bytes(b"earlier: " + FENCED)
    return segment


def awaited(
    segment: Path, appended: bytes, log: str, *, within: float, ended: bool = False
) -> bool:
    data = segment.parent.parent
    before = metadata_log(data)
    segment.write_bytes(segment.read_bytes() + appended)
    controller = cast(KeptProcess, SimpleNamespace(ended_within=lambda seconds: ended))
    return await_fenced(controller, data, before, lambda: log, time.monotonic() + within)


def test_what_it_has_written_counts_not_what_stood_there(segment: Path) -> None:
    assert awaited(segment, b"batch" + FENCED, "", within=FAR)
    assert not awaited(segment, b"batch" + UNFENCED, "", within=SOON)


@pytest.mark.parametrize("log", [STARTED, STARTED + "\n" + FENCING])
def test_after_a_while_nobody_is_left_to_be_fenced(
    segment: Path, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker was alive, or recovery cut the log's end off, so that the record lies before it."""
    monkeypatch.setattr(fencing, "_NOBODY_SECONDS", 0.1)
    assert awaited(segment, b"", log, within=FAR)


def test_a_controller_that_ends_or_never_starts_fences_nobody(segment: Path) -> None:
    assert not awaited(segment, b"", STARTED, within=FAR, ended=True)
    assert not awaited(segment, b"", "", within=SOON)
