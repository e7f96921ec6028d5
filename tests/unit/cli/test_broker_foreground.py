"""A foreground command that waits for the end of the nodes of a cluster."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streams.broker.cluster import EmbeddedCluster
from streams.cli import broker as commands


class PlayedNode:
    """A node that this process started; `code` is None while it lives or where others run it."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def wait(self, timeout: float | None = None) -> int | None:
        return self.code


def awaited(monkeypatch: pytest.MonkeyPatch, looks: int, *nodes: PlayedNode) -> tuple[Any, int]:
    """The exit codes where some node runs for so many looks, and how often was waited."""
    left, slept = [[1]] * looks + [[]], list[float]()
    monkeypatch.setattr(
        commands, "read_cluster_status", lambda _: SimpleNamespace(pids=left.pop(0))
    )
    monkeypatch.setattr(commands, "time", SimpleNamespace(sleep=slept.append))
    cluster = cast(EmbeddedCluster, SimpleNamespace(nodes=dict(enumerate(nodes, 1))))
    return commands._await_end(cluster, Path("data")), len(slept)


def test_it_waits_between_looks_while_only_nodes_of_others_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own one has ended, and the others were started with --detach."""
    codes, waits = awaited(monkeypatch, 5, PlayedNode(137), PlayedNode(None), PlayedNode(None))
    assert (codes, waits) == ([137], 5)


def test_the_code_of_a_node_that_ended_last_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert awaited(monkeypatch, 0, PlayedNode(1)) == ([1], 0)
