"""When the controllers, alone before a restart, have given the former brokers up."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from streams.broker import fencing
from streams.broker.fencing import LoneController, await_fenced, metadata_log
from streams.broker.process import KeptProcess

EPOCH = bytes(7) + b"\x2b"
ACTIVE = "[QuorumController id=1] Becoming the active controller at epoch 3, next write offset 99."
FAR, SOON = 60.0, 0.5


def fenced(node: int) -> bytes:
    return b"\x01\x11\x00\x00\x00\x00" + bytes([node]) + EPOCH + b"\x01\x00\x01\x01"


def unfenced(node: int) -> bytes:
    return fenced(node)[:-1] + b"\xff"


def fencing_line(node: int) -> str:
    return f"Fencing broker {node} at epoch 43 because its session has timed out."


class Nodes:
    """The metadata logs of some nodes, which each have had the fencing of all, and their logs."""

    def __init__(self, folder: Path, number: int = 1) -> None:
        self.log = ""
        self.ended = False
        self._segments = {}
        for node in range(1, number + 1):
            segment = folder / str(node) / "__cluster_metadata-0" / f"{0:020}.log"
            segment.parent.mkdir(parents=True)
            segment.write_bytes(b"earlier: " + b"".join(map(fenced, range(1, number + 1))))
            self._segments[node] = segment

    def await_fenced(self, appended: bytes, within: float, writer: int = 1) -> bool:
        controllers = [self._controller(node) for node in self._segments]
        with self._segments[writer].open("ab") as segment:
            segment.write(appended)
        return await_fenced(controllers, time.monotonic() + within)

    def _controller(self, node: int) -> LoneController:
        data = self._segments[node].parent.parent
        process = cast(KeptProcess, SimpleNamespace(ended_within=lambda seconds: self.ended))
        return LoneController(node, process, data, metadata_log(data), lambda: self.log)


@pytest.fixture
def one(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path)


@pytest.fixture
def three(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path, 3)


def test_what_it_has_written_counts_not_what_stood_there(one: Nodes) -> None:
    assert one.await_fenced(b"batch" + fenced(1), FAR)
    assert not one.await_fenced(b"batch" + unfenced(1), SOON)


def test_every_broker_has_to_be_dropped_whichever_node_shows_it(three: Nodes) -> None:
    assert not three.await_fenced(fenced(1) + unfenced(2) + fenced(3), SOON)
    assert three.await_fenced(fenced(2) + fenced(3) + fenced(1), FAR, writer=3)


@pytest.mark.parametrize("log", [ACTIVE, ACTIVE + "\n" + fencing_line(1)])
def test_after_a_while_nobody_is_left_to_be_fenced(
    one: Nodes, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker was alive, or recovery cut the log's end off, so that the record lies before it."""
    monkeypatch.setattr(fencing, "_NOBODY_SECONDS", 0.1)
    one.log = log
    assert one.await_fenced(b"", FAR)


def test_nobody_is_given_up_before_a_controller_is_active(
    three: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "_NOBODY_SECONDS", 0.1)
    assert not three.await_fenced(b"", SOON)


def test_a_controller_that_ends_fences_nobody(one: Nodes) -> None:
    one.log, one.ended = ACTIVE, True
    assert not one.await_fenced(b"", FAR)
