"""What each preset takes out of a text, and what it leaves."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import pytest

from streams.access.tokens import Token
from streams.redaction.presets import PRESETS
from streams.redaction.redaction import Redaction

CARDS = [
    "4242424242424242",
    "4242 4242 4242 4242",
    "4242-4242-4242-4242",
    "5555555555554444",
    "2223003122003222",
    "378282246310005",
    "3782 822463 10005",
    "30569309025904",
    "3056 930902 5904",
    "6011111111111117",
    "3566002020360505",
    "4222222222222",
]
NO_CARDS = [
    "4242424242424241",  # a wrong check digit
    "1732887000123456",  # microseconds since the epoch
    "1732887000123456789",
    "evt_0192f3a4-4242-7890-8123-123456789012",
    "42424242424242424242",
    "f7424242424242424242",  # a part of a hash
    "4242424242424242c0ffee",
    "+41 44 668 18 00",
    "order 4242 4242",
]
MAILS = ["ann@example.com", "ann.b+c@mail.example.co.uk", "ann%40example.com", "jürg@exämple.ch"]
NO_MAILS = ["@ann", "ann@localhost", "a @ b.c", "git@", "x@.com"]
TOKENS = [
    ("Authorization: Bearer abc.def-123_456~x", "abc.def-123_456~x"),
    ("authorization: basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA=="),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "eyJzdWIiOiIxIn0"),
    ("sk_" + "live_51Habcdefghijk", "51Habcdefghijk"),
    ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ("ghp_" + "a1B2" * 9, "a1B2" * 9),
    ("github_pat_" + "a1B2" * 9, "a1B2" * 9),
    ("glpat-" + "a1B2" * 5, "a1B2" * 5),
    ("xoxb-" + "1234567890-abcdef", "1234567890-abcdef"),
    ("AKIA" + "IOSFODNN7EXAMPLE", "IOSFODNN7EXAMPLE"),
    ("AIza" + "B" * 35, "B" * 35),
    ("ya29.a0AfH6SMBx-12345", "a0AfH6SMBx-12345"),
    ("sk-ant-api03-" + "a1B2" * 6, "a1B2" * 6),
    ("hvs.CAESIJ1234567890abcd", "CAESIJ1234567890abcd"),
    ("SG.abcdefghijklmnopqrst.abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
    ("npm_" + "a1B2" * 9, "a1B2" * 9),
    (Token("0" * 16, "a1b2" * 13).text, "a1b2" * 13),
    ('{"password": "hunter2-hunter2"}', "hunter2-hunter2"),
    ("https://api.example.com/?api_key=abcdef123&x=1", "abcdef123"),
    ("postgres://app:s3cr3t-pw@db.internal/app", "s3cr3t-pw"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAAAA\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    ("-----BEGIN PRIVATE KEY-----\nMIIEow\nAA", "MIIEow"),
]
NO_TOKENS = [
    "bearer of news",
    "basic idea",
    "max_tokens: 5",
    "sk_test",
    "a token is needed",
    "eyJ",
]
EDGES = ["", "", "\n", "\\n", "x\\t", "x\\\\r"]


def of(*presets: str) -> Redaction:
    return Redaction(presets=presets)


@pytest.mark.parametrize("card", CARDS)
def test_a_card_is_taken_out_wherever_it_stands(card: str) -> None:
    for text in (
        card,
        f"card {card}.",
        f"a={card}&b",
        f"card_{card}_x",
        f"no 1234 {card} 123",
        f'"{card}"',
    ):
        assert of("card").text(text) == text.replace(card, "[redacted]")
    assert of("card").json(f'{{"n":{card}}}' if card.isdigit() else f'["{card}"]') in (
        '{"n":"[redacted]"}',
        '["[redacted]"]',
    )


@pytest.mark.parametrize("text", NO_CARDS)
def test_other_numbers_stay(text: str) -> None:
    assert of("card").text(text) == text


@pytest.mark.parametrize("mail", MAILS)
def test_a_mail_is_taken_out(mail: str) -> None:
    assert of("mail").text(f"<{mail}>, to:{mail}") == "<[redacted]>, to:[redacted]"


@pytest.mark.parametrize("text", NO_MAILS)
def test_what_is_no_mail_stays(text: str) -> None:
    assert of("mail").text(text) == text


@pytest.mark.parametrize(("text", "secret"), TOKENS)
def test_a_token_is_taken_out(text: str, secret: str) -> None:
    found = of("token").text(f"it said {text} again")
    assert secret not in found
    assert "[redacted]" in found
    assert of("token").text(found) == found


@pytest.mark.parametrize("text", NO_TOKENS)
def test_what_is_no_token_stays(text: str) -> None:
    assert of("token").text(text) == text


@pytest.mark.parametrize(
    "piece", ["a", "1", "1 ", "a@", "a%40", "a.", "eyJ", "-", "x=", "://", "\n"]
)
def test_a_long_text_takes_no_longer_than_it_is_long(piece: str) -> None:
    """Of the processor's time: eight times the text takes some eight times as long, not 64."""
    every = of(*PRESETS)

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        began = time.thread_time()
        every.text(text)
        every.unfinished(text)
        return time.thread_time() - began

    seconds(2_048)
    short = min(seconds(8_192) for _ in range(2))
    assert min(seconds(65_536) for _ in range(2)) < 32 * max(short, 0.002)


@pytest.mark.parametrize("tail", ["", " x", "-----END x"])
@pytest.mark.parametrize("piece", ["a:", "a=b", "-----BEGIN ", "\\", "\\n", "a: ", "bearer "])
def test_what_may_be_a_beginning_is_found_as_fast(piece: str, tail: str) -> None:
    every = of(*PRESETS)

    def seconds(size: int) -> float:
        text = piece * (size // len(piece)) + tail
        began = time.thread_time()
        every.unfinished(text)
        every.text(f"password={text}")
        return time.thread_time() - began

    seconds(2_048)
    short = min(seconds(8_192) for _ in range(2))
    assert min(seconds(65_536) for _ in range(2)) < 32 * max(short, 0.002)


@pytest.mark.parametrize("write", [json.dumps, repr, lambda text: json.dumps(json.dumps(text))])
@pytest.mark.parametrize("secret", [*CARDS, *MAILS, "sk_live_abcdefgh12", "password=hunter22"])
def test_behind_a_line_s_end_that_json_or_python_has_written_it_is_found(
    write: Callable[[str], str], secret: str
) -> None:
    every = of(*PRESETS)
    text = write(f"one\n{secret}\n\ttwo")
    found = every.text(text)
    assert found == write(f"one\n{secret.replace(secret.rpartition('=')[2], '[redacted]')}\n\ttwo")
    assert every.value([text]) == [found]
    for cut in range(len(text)):
        stream = every.stream()
        assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.finish() == found


@pytest.mark.parametrize("secret", [*CARDS, *MAILS, "sk_live_abcdefgh12"])
@pytest.mark.parametrize("beside", ["\u00a0", "\u2014", "\u201c"])
def test_beside_a_sign_that_json_has_written_by_its_number_it_is_found(
    secret: str, beside: str
) -> None:
    every, text = of(*PRESETS), json.dumps(f"x{beside}{secret}{beside}")
    written = json.dumps(secret)[1:-1]
    assert every.text(text) == text.replace(written, "[redacted]")
    assert json.loads(every.text(json.dumps(text)))


def test_a_document_inside_of_a_document_stays_one() -> None:
    inner = json.dumps({"password": "hunter22", "api_key": "abcdefghi", "to": "a\nb@c.io"})
    outer = json.dumps({"body": inner})
    found = of(*PRESETS).text(outer)
    assert json.loads(json.loads(found)["body"]) == {
        "password": "[redacted]",
        "api_key": "[redacted]",
        "to": "a\n[redacted]",
    }


@pytest.mark.parametrize("preset", ["card", "mail", "token", "all"])
def test_a_value_is_redacted_as_each_of_its_texts_is(preset: str) -> None:
    """The search over all texts at once misses none, whatever stands beside it."""
    rules = Redaction(presets=["card", "mail", "token"] if preset == "all" else [preset])
    alone = [*CARDS, *NO_CARDS, *MAILS, *NO_MAILS, *NO_TOKENS, *(text for text, _ in TOKENS)]
    dice = random.Random(7)
    for _ in range(300):
        found = [f"{dice.choice(EDGES)}{text}" for text in dice.sample(alone, dice.randint(1, 6))]
        assert rules.value(found) == [rules.text(text) for text in found]
