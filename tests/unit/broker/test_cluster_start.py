"""Nodes that start together end together, if one fails or the start is interrupted."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from streams.broker import cluster
from streams.errors import BrokerError


class Node:
    """A node whose start lasts until it is killed, or which fails at once."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.begun, self.killed = threading.Event(), threading.Event()

    def start(self, _: float) -> None:
        self.begun.set()
        if self._error is not None:
            raise self._error
        self.killed.wait()
        raise BrokerError("Kafka ended")

    def kill(self) -> None:
        self.killed.set()


def test_a_node_that_cannot_start_ends_the_others() -> None:
    nodes: list[Any] = [Node(BrokerError("its port is taken")), Node(), Node()]
    with pytest.raises(BrokerError, match="its port is taken"):
        cluster._start_all(nodes, 60)
    assert all(node.killed.is_set() for node in nodes)


def test_an_interrupted_start_leaves_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would end a detached one: it waits for no command."""
    nodes: list[Any] = [Node(), Node(), Node()]

    class Interrupted(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **named: Any) -> Any:
            found = super().submit(*arguments, **named)

            def interrupted(_: float | None = None) -> Any:
                for node in nodes:
                    node.begun.wait()
                raise KeyboardInterrupt

            found.result = interrupted  # type: ignore[method-assign,assignment]
            return found

    monkeypatch.setattr(cluster, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        cluster._start_all(nodes, 60)
    assert all(node.killed.is_set() for node in nodes)
