"""Workers of one test run share a broker, which ends after its last user."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from support.shared_broker import shared_broker


class Broker:
    """Notes when it starts and stops."""

    def __init__(self, bootstrap: str, happened: list[str]) -> None:
        self.bootstrap = bootstrap
        self._happened = happened

    def __enter__(self) -> Broker:
        self._happened.append(f"{self.bootstrap} starts")
        return self

    def __exit__(self, *_: object) -> None:
        self._happened.append(f"{self.bootstrap} stops")


@contextmanager
def shared(folder: Path, name: str, happened: list[str]) -> Iterator[str]:
    broker: Any = Broker(name, happened)
    with shared_broker(folder, broker) as bootstrap:
        yield bootstrap


def test_the_owner_stops_the_broker_once_the_last_user_has_left(tmp_path: Path) -> None:
    happened: list[str] = []
    started, over = Event(), Event()

    def own() -> None:
        with shared(tmp_path, "first", happened):
            started.set()
            assert over.wait(30)

    with ThreadPoolExecutor() as pool:
        owner = pool.submit(own)
        assert started.wait(30)
        with shared(tmp_path, "second", happened) as bootstrap:
            assert bootstrap == "first"
            over.set()
            happened.append("the second leaves")
        owner.result(30)
    assert happened == ["first starts", "the second leaves", "first stops"]


def test_after_it_stopped_the_next_worker_starts_its_own(tmp_path: Path) -> None:
    happened: list[str] = []
    for name in ("first", "second"):
        with shared(tmp_path, name, happened) as bootstrap:
            assert bootstrap == name
    assert happened == ["first starts", "first stops", "second starts", "second stops"]


def test_a_broker_that_does_not_start_leaves_the_turn_to_the_next(tmp_path: Path) -> None:
    class Refusing(Broker):
        def __enter__(self) -> Broker:
            raise OSError("no room")

    broken: Any = Refusing("first", [])
    with pytest.raises(OSError, match="no room"), shared_broker(tmp_path, broken):
        pytest.fail("it must not be used")
    with shared(tmp_path, "second", []) as bootstrap:
        assert bootstrap == "second"
