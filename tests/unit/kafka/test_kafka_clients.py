"""The awaited producer: what it does with errors."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from opentelemetry import trace
from structlog.testing import capture_logs
from support.garbage import large, left_behind
from support.recorded_spans import recording

from streams.errors import KafkaUnavailable
from streams.kafka import first_contact
from streams.kafka.clients import AwaitedProducer, wait_for_broker
from streams.kafka.first_contact import Contact, note_reason
from streams.settings import Settings
from streams.tracing import spans


class Refusing:
    """A producer that takes nothing."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    def produce(self, *arguments: Any, **options: Any) -> None:
        raise KafkaException(self._error)


@pytest.fixture
def terminated() -> Iterator[list[int]]:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    yield seen
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("fatal", [False, True])
async def test_only_a_fatal_error_ends_the_process(terminated: list[int], fatal: bool) -> None:
    producer = AwaitedProducer(Settings(bootstrap="127.0.0.1:1"), log_level=0)
    error = KafkaError(KafkaError._FATAL, "out of order", fatal=fatal)
    producer._producer = Refusing(error)  # type: ignore[assignment]
    with pytest.raises(KafkaUnavailable, match="events"):
        await producer.send("events", None, b"x", partition=0)
    assert terminated == ([signal.SIGTERM] if fatal else [])


async def test_a_record_that_is_not_acknowledged_is_not_kept() -> None:
    impatient = {"message.timeout.ms": 50, "log_level": 0}
    producer = AwaitedProducer(Settings(bootstrap="127.0.0.1:1"), **impatient)

    async def refused() -> bool:
        try:
            await producer.send("payloads", None, bytes(100_000), partition=0)
        except KafkaUnavailable:
            return True
        return False

    with left_behind() as garbage:
        assert await refused()
        await asyncio.sleep(0)  # the loop itself holds what it has just resumed
    assert large(garbage) == []


class Polled:
    """A producer that acknowledges nothing; it notes the span in which it is polled."""

    def __init__(self) -> None:
        self.spans: list[bool] = []

    def produce(self, *arguments: Any, **options: Any) -> None:
        pass

    def poll(self, _: float) -> None:
        self.spans.append(trace.get_current_span().is_recording())


async def test_what_all_requests_share_is_in_the_span_of_none() -> None:
    """Otherwise its log lines would name the trace of the first request, of whatever tenant."""
    producer, polled = AwaitedProducer(Settings(bootstrap="127.0.0.1:1"), log_level=0), Polled()
    producer._producer = polled  # type: ignore[assignment]
    with recording(), spans.root(None, "request", {}):
        with suppress(TimeoutError):
            await asyncio.wait_for(producer.send("events", None, b"x", partition=0), 0.01)
        assert producer._poller is not None
        producer._poller.cancel()
    assert polled.spans
    assert not any(polled.spans)


def test_who_waits_for_a_broker_is_told_why_none_answers() -> None:
    with pytest.raises(KafkaUnavailable, match="refused"), capture_logs() as lines:
        wait_for_broker(Settings(bootstrap="127.0.0.1:1"), deadline_seconds=0)
    assert "refused" in lines[0]["reason"]


def test_a_broker_that_refuses_says_more_than_one_that_is_away() -> None:
    reasons: list[KafkaError] = []
    for code in (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._AUTHENTICATION,
        KafkaError._TRANSPORT,
    ):
        note_reason(reasons, KafkaError(code, str(code)))
    assert [reason.code() for reason in reasons] == [KafkaError._AUTHENTICATION]


class Silent:
    """An admin client of a broker that refuses it, or is away."""

    def __init__(self, config: dict[str, Any], code: int, asked: threading.Event) -> None:
        self._told, self._code, self._asked = config["error_cb"], code, asked

    def list_topics(self, timeout: float) -> None:
        self._asked.set()
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, _: float) -> None:
        self._told(KafkaError(self._code, "wrong password"))


def test_who_waits_as_long_as_it_takes_is_told_of_a_broker_that_refuses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, stop = threading.Event(), threading.Event()
    for code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        monkeypatch.setattr(first_contact, "AdminClient", partial(Silent, code=code, asked=asked))
        with pytest.raises(KafkaUnavailable, match=r"refuses this client .wrong password.: see"):
            wait_for_broker(Settings(), refused_seconds=0)
    monkeypatch.setattr(
        first_contact, "AdminClient", partial(Silent, code=KafkaError._TRANSPORT, asked=asked)
    )
    asked.clear()
    waiting = threading.Thread(
        target=wait_for_broker, args=(Settings(),), kwargs={"refused_seconds": 0, "stop": stop}
    )
    waiting.start()
    assert asked.wait(10)
    assert waiting.is_alive()
    stop.set()
    waiting.join(10)
    assert not waiting.is_alive()


AWAY = KafkaError(KafkaError._TRANSPORT, "connection refused")
REFUSED = KafkaError(KafkaError._AUTHENTICATION, "wrong password")
CUT_OFF = KafkaError(
    KafkaError._AUTHENTICATION, "mechanism handshake failed: Local: Broker transport failure"
)
"""What librdkafka tells of a broker that goes away while it is asked for its SASL mechanisms."""


class Played:
    """An admin client that is told something with each question; one question takes 2 s."""

    def __init__(self, config: dict[str, Any], told: list[KafkaError | None]) -> None:
        self._hear, self._told = config["error_cb"], told
        self.now = 0.0

    def list_topics(self, timeout: float) -> None:
        self.now += timeout
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def poll(self, _: float) -> None:
        error = self._told.pop(0)
        if error is not None:
            self._hear(error)


@pytest.mark.parametrize(
    ("told", "lasts"),
    [
        ([REFUSED, REFUSED, REFUSED], [0, 2, 4]),
        ([AWAY, AWAY, REFUSED, REFUSED], [0, 0, 0, 2]),
        ([REFUSED, None, None, REFUSED], [0, 0, 0, 6]),
        ([REFUSED, AWAY, None, AWAY], [0, 0, 0, 0]),
        ([REFUSED, AWAY, REFUSED, REFUSED], [0, 0, 0, 2]),
        ([CUT_OFF, None, CUT_OFF, AWAY], [0, 0, 0, 0]),
    ],
    ids=[
        "it goes on",
        "after an absence",
        "between pauses of the client",
        "once, then away",
        "anew after an absence",
        "cut off",
    ],
)
def test_only_a_refusal_that_goes_on_counts_and_from_its_first_time(
    monkeypatch: pytest.MonkeyPatch, told: list[KafkaError | None], lasts: list[float]
) -> None:
    """A broker that goes away while it greets a client looks like one that refuses it."""
    made: list[Played] = []

    def client(config: dict[str, Any]) -> Played:
        made.append(Played(config, told))
        return made[0]

    monkeypatch.setattr(first_contact, "AdminClient", client)
    monkeypatch.setattr("streams.kafka.first_contact.time.monotonic", lambda: made[0].now)
    contact, found = Contact(Settings()), list[float]()
    for _ in range(len(told)):
        assert contact.silence() is not None
        found.append(contact.refused_seconds)
    assert found == lasts


def test_the_reason_of_a_silence_stays_known_while_nothing_new_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = [REFUSED, None, AWAY, None]
    monkeypatch.setattr(first_contact, "AdminClient", lambda config: Played(config, told))
    contact = Contact(Settings())
    assert [contact.silence() for _ in range(4)] == [REFUSED, REFUSED, AWAY, AWAY]
