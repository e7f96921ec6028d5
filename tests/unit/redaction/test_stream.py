"""A text in pieces, cut anywhere, is redacted as the whole of it is."""

from __future__ import annotations

import random
import time

import pytest

from streams.redaction.patterns import MOST_HELD
from streams.redaction.redaction import Redaction

TEXTS = [
    "Dear Ann, your card 4242 4242 4242 4242 was charged. Write to ann@example.com or call.",
    "card:4242424242424242;",
    "Use Authorization: Bearer abcdefghijkl.mnop and then stop, " * 2,
    "the key is known-secret-value, known-secre is none",
    "password = hunter22222 and api_key: abcdefghi, end",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl\nmore",
    "-----BEGIN PRIVATE KEY-----\nMIIEow\nAAAA\n-----END PRIVATE KEY-----\nbehind it",
    "postgres://app:s3cr3t@db/x is bad",
    "x two words of one secret 1, and on",
    "1 two words of one secret 1 two words of one secret 1",
    "nothing here, not even a b@c",
]


def redaction(*patterns: str) -> Redaction:
    found = Redaction(patterns=patterns, presets=["card", "mail", "token"])
    found.secrets.add("known-secret-value")
    found.secrets.add("two words of one secret 1")
    return found


@pytest.mark.parametrize("text", TEXTS)
def test_cut_at_each_place_it_is_as_the_whole(text: str) -> None:
    rules = redaction()
    for cut in range(len(text) + 1):
        stream = rules.stream()
        parts = stream.feed(text[:cut]), stream.feed(text[cut:]), stream.finish()
        assert "".join(parts) == rules.text(text)


@pytest.mark.parametrize("text", TEXTS)
def test_cut_into_many_pieces_it_is_as_the_whole(text: str) -> None:
    rules, dice = redaction(), random.Random(7)
    for _ in range(50):
        stream, rest, told = rules.stream(), text, ""
        while rest:
            size = dice.randint(1, 6)
            told, rest = told + stream.feed(rest[:size]), rest[size:]
        assert told + stream.finish() == rules.text(text)


def test_an_escape_that_comes_in_pieces_goes_on_with_the_word_before_it() -> None:
    text = '{"to": "j\\u00fcrg@ex\\u00e4mple.ch", "said": "\\u201cann@example.com\\u201d"}'
    rules = Redaction(presets=["mail"])
    stream = rules.stream()
    assert "".join(map(stream.feed, text)) + stream.finish() == rules.text(text)
    assert rules.text(text).count("[redacted]") == 2


def test_words_that_are_no_secret_are_not_held_back_for_long() -> None:
    stream = redaction().stream()
    assert stream.feed("one two three") == "one two "
    assert stream.feed(" four") == "three "


def test_without_rules_nothing_is_held_back() -> None:
    stream = Redaction().stream()
    assert stream.feed("an end of no spac") == "an end of no spac"


def test_a_pattern_of_the_operators_own_holds_back_a_line() -> None:
    stream = Redaction(patterns=[r"case \d+ of [A-Z]\w+"]).stream()
    assert stream.feed("first\nthe case 7 ") == "first\n"
    assert stream.feed("of Ann\n") == "the [redacted]\n"


def test_what_does_not_end_is_left_out_up_to_the_next_space() -> None:
    stream = redaction().stream()
    assert stream.feed("a " + "x" * MOST_HELD) == "a [redacted]"
    assert stream.feed("xxx") == ""
    assert stream.feed("xx and on ") + stream.finish() == " and on "


def test_a_long_word_in_small_pieces_takes_no_longer_than_it_is_long() -> None:
    """Of the processor's time: four times the word takes some four times as long, not 16."""

    def seconds(pieces: int) -> float:
        stream, began = redaction().stream(), time.thread_time()
        told = [stream.feed("a1b2c3d4") for _ in range(pieces)]
        assert "".join(told) + stream.finish() == "a1b2c3d4" * pieces
        return time.thread_time() - began

    seconds(100)
    short = min(seconds(1_000) for _ in range(2))
    assert min(seconds(4_000) for _ in range(2)) < 9 * max(short, 0.01)


def test_a_stream_may_begin_another_text_after_its_end() -> None:
    stream = redaction().stream()
    stream.feed("ann@")
    assert stream.finish() == "ann@"
    assert stream.feed("example.com ") + stream.finish() == "example.com "


def test_no_known_secret_comes_through_whatever_stands_beside_it() -> None:
    dice, beside = random.Random(7), ["4242 ", "a=", "@", ":", "\n", "eyJ", "bearer ", "x", " "]
    for _ in range(400):
        rules = redaction(*dice.sample([r"CASE-\d+", r"IBAN (?P<secret>\w+)"], dice.randint(0, 2)))
        text = "".join(dice.choice([*beside, *rules.secrets.forms]) for _ in range(8))
        stream, told, rest = rules.stream(), "", text
        while rest:
            size = dice.randint(1, 9)
            told, rest = told + stream.feed(rest[:size]), rest[size:]
        told += stream.finish()
        assert not rules.secrets.are_in(told), text
