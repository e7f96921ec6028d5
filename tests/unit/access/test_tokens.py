"""Tokens have one form, show a typing error, and are compared by a digest."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.access.tokens import Token, mint, parse


def test_a_token_is_read_back_and_none_is_made_twice() -> None:
    made = [mint() for _ in range(100)]
    assert [parse(token.text) for token in made] == made
    assert len({token.id for token in made}) == len({token.secret for token in made}) == 100
    assert all(re.fullmatch(r"tg_[0-9a-v]{16}_[0-9a-v]{52}_[0-9a-f]{8}", t.text) for t in made)


@given(st.data())
def test_no_changed_character_is_taken_for_a_token(data: st.DataObject) -> None:
    text = Token("0123456789abcdef", "g" * 52).text
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda c: c != text[at]))
    assert parse(text[:at] + other + text[at + 1 :]) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tg_",
        "tg_a_b_c",
        "bearer",
        "TG_0_0_0",
        "tg_\x00",
        pytest.param(f"{mint().text}\n", id="line"),
        "tg_é_é_é",
    ],
)
def test_other_texts_are_no_tokens(text: str) -> None:
    assert parse(text) is None


def test_the_digest_alone_is_kept_and_tells_the_secret() -> None:
    token, other = mint(), mint()
    assert token.digest == hashlib.sha256(token.secret.encode()).digest()
    assert token.matches(token.digest)
    assert not token.matches(other.digest)
    assert not token.matches(None)
    assert not Token("0" * 16, "").matches(bytes(32))


def test_neither_repr_nor_str_shows_the_secret() -> None:
    token = mint()
    assert token.secret not in f"{token!r} {token} {token!s}"
