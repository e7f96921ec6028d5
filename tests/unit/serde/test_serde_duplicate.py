"""The record of a duplicate, written by hand, is what the codec would have written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.serde.codec import DUPLICATE
from streams.serde.duplicate import encode_duplicate
from streams.serde.records import Duplicate

NUMBERS = st.integers(0, 2**62) | st.sampled_from([0, 63, 64, 8191, 8192, 1 << 20, 1 << 21])
IDS = st.none() | st.text(st.characters(max_codepoint=127), max_size=200)


TEXTS = st.none() | st.text(max_size=200)


@given(st.text(max_size=200), NUMBERS, NUMBERS, NUMBERS, st.tuples(IDS, TEXTS, TEXTS))
def test_it_is_the_codecs_bytes(
    tenant_id: str,
    count: int,
    first_at: int,
    last_at: int,
    texts: tuple[str | None, str | None, str | None],
) -> None:
    raw = [None if text is None else text.encode() for text in texts]
    written = encode_duplicate(tenant_id.encode(), count, first_at, last_at, *raw)
    assert written == DUPLICATE.encode(Duplicate(tenant_id, count, first_at, last_at, *texts))


def test_a_source_that_is_no_text_is_left_out() -> None:
    written = encode_duplicate(b"acme", 1, 2, 3, None, b"\xff", b"ticket")
    assert DUPLICATE.decode(written) == Duplicate("acme", 1, 2, 3, None, None, "ticket")


@pytest.mark.parametrize(("raw", "text"), [(b"\xff", "\ufffd"), (b"", "")])
def test_a_tenant_that_is_no_text_is_still_a_record(raw: bytes, text: str) -> None:
    assert DUPLICATE.decode(encode_duplicate(raw, 1, 2, 3, b"\xff")) == Duplicate(
        text, 1, 2, 3, None
    )
