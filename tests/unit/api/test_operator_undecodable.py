"""What the read model cannot decode is a dead letter, without what has to stay destroyable."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError
from structlog.testing import capture_logs

from streams.api.read_model import undecodable
from streams.api.read_model.undecodable import Undecodable
from streams.errors import DecodeError, KafkaUnavailable
from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER
from streams.serde.keys import tenant_key
from streams.serde.records import DeadLetter
from streams.settings import Settings


class Producer:
    """A broker that takes values of `most` bytes, and fails with `down` otherwise."""

    def __init__(self, most: int = 10_000, down: int | None = None) -> None:
        self.most, self.down = most, down
        self.taken: list[DeadLetter] = []
        self._answers: list[Callable[[], None]] = []

    def produce(self, topic: str, value: bytes, *_: Any, on_delivery: Any) -> None:
        assert topic == "dlq"
        code = KafkaError.MSG_SIZE_TOO_LARGE if len(value) > self.most else self.down
        if code is None:
            self.taken.append(DEAD_LETTER.decode(value))
        error = None if code is None else KafkaError(code)
        self._answers.append(partial(on_delivery, error, None))

    def flush(self, _seconds: float) -> int:
        answers, self._answers = self._answers, []
        for answer in answers:
            answer()
        return 0


@pytest.fixture
def undecodable_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Producer], Undecodable]:
    def made(producer: Producer) -> Undecodable:
        monkeypatch.setattr(undecodable, "Producer", lambda _: producer)
        return Undecodable(Settings(bootstrap="127.0.0.1:1"))

    return made


def poison(offset: int, value: bytes = b"sealed") -> Record:
    return Record("jobs", 1, offset, 5, b"job_a", value)


WRONG = DecodeError("of a later version")


@pytest.mark.parametrize(
    ("kind", "kept"),
    [("data_key", None), ("source", None), ("endpoint", None), ("tenant", b"settings")],
)
def test_no_copy_of_a_secret_outlives_its_destruction(
    undecodable_by: Callable[[Producer], Undecodable], kind: str, kept: bytes | None
) -> None:
    producer = Producer()
    letters = undecodable_by(producer)
    key = tenant_key("acme", kind, "k")
    letters.put(Record("tenants", 1, 7, 5, key, b"settings"), WRONG)
    (letter,) = producer.taken
    assert (letter.id, letter.key, letter.value) == ("operator:tenants:1:7", key, kept)


def test_a_letter_that_is_too_large_for_the_broker_goes_without_its_record(
    undecodable_by: Callable[[Producer], Undecodable],
) -> None:
    """The read model stood still for ever before it."""
    producer = Producer(most=1_000)
    letters = undecodable_by(producer)
    letters.put(poison(1, b"v" * 5_000), WRONG)
    letters.put(poison(2), WRONG)
    letters.flush()
    assert [(letter.id[-1], letter.value, letter.cut) for letter in producer.taken] == [
        ("2", b"sealed", False),
        ("1", None, True),
    ]


def test_a_letter_that_the_broker_never_takes_is_given_up_in_the_log(
    undecodable_by: Callable[[Producer], Undecodable],
) -> None:
    producer = Producer(most=10)
    letters = undecodable_by(producer)
    letters.put(poison(1), WRONG)
    with capture_logs() as lines:
        letters.flush()
    assert [(line["log_level"], line["id"]) for line in lines] == [("error", "operator:jobs:1:1")]


def test_offsets_of_records_whose_letters_are_not_acknowledged_are_not_stored(
    undecodable_by: Callable[[Producer], Undecodable],
) -> None:
    letters = undecodable_by(Producer(down=KafkaError._MSG_TIMED_OUT))
    letters.put(poison(1), WRONG)
    with pytest.raises(KafkaUnavailable, match="dlq"):
        letters.flush()
