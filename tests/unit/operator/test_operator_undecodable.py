"""What the read model cannot decode is a dead letter, without what has to stay destroyable."""

from __future__ import annotations

from typing import Any

import pytest

from streams.errors import DecodeError
from streams.operator.read_model import undecodable
from streams.operator.read_model.undecodable import Undecodable
from streams.runtime.processor import Record
from streams.serde.codec import DEAD_LETTER
from streams.serde.keys import tenant_key
from streams.settings import Settings


class Producer:
    """Keeps what was produced last."""

    value = b""

    def produce(self, topic: str, value: bytes, *_: Any, **__: Any) -> None:
        assert topic == "dlq"
        self.value = value


@pytest.mark.parametrize(("kind", "kept"), [("data_key", None), ("source", b"sealed")])
def test_no_copy_of_a_data_key_outlives_its_destruction(
    monkeypatch: pytest.MonkeyPatch, kind: str, kept: bytes | None
) -> None:
    producer = Producer()
    monkeypatch.setattr(undecodable, "Producer", lambda _: producer)
    letters = Undecodable(Settings(bootstrap="127.0.0.1:1"))
    key = tenant_key("acme", kind, "k")
    letters.put(Record("tenants", 1, 7, 5, key, b"sealed"), DecodeError("of a later version"))
    letter = DEAD_LETTER.decode(producer.value)
    assert (letter.id, letter.key, letter.value) == ("operator:tenants:1:7", key, kept)
