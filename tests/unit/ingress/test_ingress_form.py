"""Forms are read as the URL standard says, and bounded."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.formats.form import MAX_FIELDS, form_document, form_fields
from streams.errors import MalformedBody


@given(st.lists(st.tuples(st.text(), st.text()), max_size=8))
def test_what_the_standard_library_encodes_is_decoded(pairs: list[tuple[str, str]]) -> None:
    encodable = [(n, v) for n, v in pairs if f"{n}{v}".isprintable() and (n or v)]
    expected = [(name.encode(), value.encode()) for name, value in encodable]
    assert form_fields(urlencode(encodable).encode()) == expected


def test_a_repeated_field_is_a_list() -> None:
    assert form_document(b"a=1&b=+%2B&a=2&c&&=d") == {"a": ["1", "2"], "b": " +", "c": "", "": "d"}


def test_a_form_not_in_utf_8_or_of_too_many_fields_is_malformed() -> None:
    with pytest.raises(MalformedBody, match="UTF-8"):
        form_document(b"a=%ff")
    most = b"&".join([b"a=1"] * MAX_FIELDS)
    assert len(form_fields(most)) == MAX_FIELDS
    with pytest.raises(MalformedBody, match="1000 fields"):
        form_fields(most + b"&a=1")


@given(st.binary())
def test_no_body_raises_anything_else(body: bytes) -> None:
    try:
        form_document(body)
    except MalformedBody:
        return


def test_a_form_full_of_escapes_is_refused_before_it_is_decoded() -> None:
    assert form_fields(b"a=" + b"%41" * 100_000)[0][1] == b"A" * 100_000
    with pytest.raises(MalformedBody, match="100000 escaped bytes"):
        form_fields(b"a=" + b"%41" * 100_001)
