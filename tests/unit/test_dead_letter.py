"""A dead letter fits a message whatever it is made of, and copies no key that must be destroyed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streams import dead_letter
from streams.api.dead_letters.eligibility import unfit
from streams.serde.codec import DEAD_LETTER
from streams.serde.keys import tenant_key
from streams.serde.records import DeadLetter
from streams.serde.sizes import PRODUCER_BATCH_BYTES
from streams.topology.load import load


def letter(*place: Any, detail: str = "x", **options: Any) -> DeadLetter:
    made = dead_letter.of_record("s", *place, reason="undecodable", detail=detail, at=1, **options)
    return DEAD_LETTER.decode(dead_letter.encoded(made)[1])


def test_a_header_without_a_value_is_no_second_accident() -> None:
    assert letter("in", 0, 7, 1, b"k", b"v", [("traceparent", None)]).traceparent is None


def test_a_dead_letter_is_written_whatever_an_error_says() -> None:
    """An error may quote what cannot be encoded, or be as long as what it was given."""
    made = letter("in", 0, 7, 1, b"k", b"v", detail="\ud800" + "\U0001f600" * 5_000)
    assert made.detail.startswith("?\U0001f600")
    assert len(made.detail.encode()) <= 2_048
    assert not made.cut


def test_the_largest_dead_letter_fits_a_producers_batch() -> None:
    huge = b"x" * PRODUCER_BATCH_BYTES
    made = letter("t" * 249, 0, 7, 1, huge, huge, [("h", huge)], detail="x" * 5_000)
    assert made.cut
    assert sum(map(len, dead_letter.encoded(made))) < PRODUCER_BATCH_BYTES - 512


@pytest.mark.parametrize(
    ("topic", "kind", "kept"),
    [
        ("tenants", "data_key", None),
        ("tenants", "source", None),
        ("tenants", "endpoint", None),
        ("tenants", "tenant", b"v"),
        ("tenants", "erasure", b"v"),
        ("events", "data_key", b"v"),
    ],
)
def test_no_copy_of_a_secret_outlives_its_destruction(
    topic: str, kind: str, kept: bytes | None
) -> None:
    made = letter(topic, 0, 7, 1, tenant_key("acme", kind, "k"), b"v")
    assert (made.value, made.cut) == (kept, kept is None)


def test_the_letter_of_a_data_key_is_not_sent_in_again_as_its_deletion() -> None:
    made = letter("tenants", 0, 7, 1, tenant_key("acme", "data_key", "k"), b"v")
    refused = unfit(replace(made, stage="dispatcher"), load(), again=False)
    assert refused is not None
    assert refused.name == "not-replayable"
