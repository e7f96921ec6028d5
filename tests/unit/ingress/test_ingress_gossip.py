"""The exchange of demand between processes: no end of it goes unnoticed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest

from ingress.rates import gossip
from ingress.rates.gossip import RateGossip
from ingress.rates.shares import Rates
from streams.errors import StageFailed
from streams.kafka import tail
from streams.settings import Settings
from streams.tenants.settings import Rate


class Silent:
    """A consumer that reads nothing; `polled` runs in each poll, `closes` in its close."""

    def __init__(self, polled: Callable[[], object], closes: Callable[[], object]) -> None:
        self.polled, self.closes = polled, closes

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        return 0, 0

    def incremental_assign(self, _: object) -> None: ...

    def poll(self, _: float) -> None:
        self.polled()

    def close(self) -> None:
        self.closes()


class Deaf:
    """A producer whose records nobody reads."""

    def __init__(self, _: object) -> None: ...

    def produce(self, *_: object) -> None: ...

    def poll(self, _: float) -> None: ...

    def flush(self, _: float) -> None: ...


Exchanged = Callable[[Callable[[], object], Callable[[], object]], RateGossip]


@pytest.fixture
def failures() -> SimpleQueue[Exception]:
    return SimpleQueue()


@pytest.fixture
def exchanged(
    monkeypatch: pytest.MonkeyPatch, failures: SimpleQueue[Exception]
) -> Iterator[Exchanged]:
    """Starts an exchange whose consumer does what it is told; it ends with the test."""
    monkeypatch.setattr(gossip, "TICK_SECONDS", 0.0)
    monkeypatch.setattr(gossip, "Producer", Deaf)
    started: list[RateGossip] = []

    def start(polled: Callable[[], object], closes: Callable[[], object]) -> RateGossip:
        monkeypatch.setattr(tail, "Consumer", lambda _: Silent(polled, closes))
        limits: Any = {}
        started.append(RateGossip(Settings(), Rates(limits), failures.put))
        started[0].start()
        return started[0]

    yield start
    for each in started:
        each.stop()


def test_an_exchange_that_breaks_ends_the_process_and_its_client_is_closed_watched(
    exchanged: Exchanged, failures: SimpleQueue[Exception]
) -> None:
    watched: list[bool] = []

    def breaks() -> None:
        raise IndexError("of a fault of ours")

    def closes() -> None:
        watched.append("standstill" in {thread.name for thread in threading.enumerate()})

    exchanged(breaks, closes)
    failure = failures.get(timeout=10)
    assert isinstance(failure, StageFailed)
    assert "IndexError: of a fault of ours" in str(failure)
    assert watched == [True]


def test_a_client_that_never_closes_does_not_keep_the_process_from_its_end(
    exchanged: Exchanged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gossip, "_STOP_SECONDS", 0.05)
    polled, released, closed = threading.Event(), threading.Event(), list[bool]()
    found = exchanged(polled.set, lambda: closed.append(released.wait(10)))
    assert polled.wait(10)
    found.stop()
    assert closed == []
    released.set()


class Timed:
    """A clock that each wait for reports moves, and the times at which reports are sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.sent = 1_000.0, list[float]()
        self.enough = threading.Event()
        clock = self

        class Waiting(Silent):
            def poll(self, seconds: float) -> None:
                clock.now += seconds

        class Noting(Deaf):
            def produce(self, *_: object) -> None:
                clock.sent.append(clock.now)
                if len(clock.sent) == 5:
                    clock.enough.set()

        monkeypatch.setattr(gossip, "time", SimpleNamespace(monotonic=lambda: clock.now))
        monkeypatch.setattr(tail, "Consumer", lambda _: Waiting(lambda: None, lambda: None))
        monkeypatch.setattr(gossip, "Producer", Noting)

    def intervals(self, rates: dict[str, Rate]) -> list[float]:
        """Until the first report, and between the next ones."""
        started = RateGossip(Settings(), Rates(rates), lambda _: None)
        started.start()
        assert self.enough.wait(10)
        started.stop()
        return [after - before for before, after in pairwise([1_000.0, *self.sent[:5]])]


def test_it_reports_once_a_second_while_no_tenant_has_a_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It hears every other process before its first report, however seldom they report."""
    assert Timed(monkeypatch).intervals({}) == [2, 1, 1, 1, 1]


def test_it_reports_four_times_a_second_if_a_tenant_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    intervals = Timed(monkeypatch).intervals({"acme": Rate(count=10, seconds=1)})
    assert intervals == [0.5, 0.25, 0.25, 0.25, 0.25]
