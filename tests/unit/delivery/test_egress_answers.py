"""What is kept of an answer: a wait within bounds, and text that is safe to show."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.delivery.egress import retry_after
from streams.delivery.egress.excerpt import LONGEST_EXCERPT, excerpt
from streams.delivery.egress.retry_after import retry_after_seconds

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        (" 120 ", 120.0),
        ("86400", 86_400.0),
        ("31536000", 86_400.0),
        ("9" * 5000, 86_400.0),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1e3", None),
        ("٣", None),
        ("", None),
        ("soon", None),
        ("NaN", None),
        ("inf", None),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
        ("Sunday, 06-Nov-94 08:50:37 GMT", 60.0),
        ("Sun Nov  6 08:50:37 1994", 60.0),
        ("Sun, 06 Nov 1994 10:50:37 +0200", 60.0),
        ("Sun, 06 Nov 1995 08:49:37 GMT", 86_400.0),
        ("Sun, 06 Nov 1993 08:49:37 GMT", 0.0),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 99999 08:49:37 GMT", None),
    ],
)
def test_a_wait_is_seconds_or_a_date_and_at_most_a_day(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after_seconds(value, DATE) == seconds


@pytest.mark.parametrize("date", [None, "", "garbage"])
def test_without_the_receiver_s_clock_a_date_counts_from_ours(
    date: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_after, "wall_ms", lambda: 784_111_777_000)  # DATE
    assert retry_after_seconds("Sun, 06 Nov 1994 08:51:37 GMT", date) == 120.0


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=30), st.text(max_size=30))
def test_no_header_breaks_the_wait(value: str, date: str) -> None:
    seconds = retry_after_seconds(value, date)
    assert seconds is None or 0 <= seconds <= 86_400


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        (b"", None, ""),
        (b"ok\r\nline", None, "ok  line"),
        ("grün".encode(), None, "grün"),
        ("grün".encode("latin-1"), "latin-1", "grün"),
        (b"gr\xfcn", "utf-8", "gr�n"),
        (b"a", "no-such", "a"),
        (b"a", "zip", "a"),
        (b"YQ==", "base64", "YQ=="),
        (b"a", "a\x00b", "a"),
        (b"\x1b[31mred\x07\x00", None, "[31mred"),
        ("a\u202eb\u2066c\u200bd\ufeff".encode(), None, "abcd"),
        (b"x" * 9999, None, "x" * 1024),
    ],
)
def test_an_excerpt_is_printable_text(body: bytes, charset: str | None, text: str) -> None:
    assert excerpt(body, charset, ()) == text


@settings(deadline=None)
@given(st.binary(), st.sampled_from([None, "utf-8", "utf-16", "utf-7", "shift_jis", "idna"]))
def test_no_body_breaks_its_excerpt(body: bytes, charset: str | None) -> None:
    text = excerpt(body, charset, ("secret",))
    assert text.isprintable()
    assert len(text) <= LONGEST_EXCERPT


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw!", "[redacted]!"),
        ("whsk_MfKQ9r8GKYqr/+=", "[redacted]"),
        ('{"authorization":"Bearer abc.def-123"}', '{"authorization":"Bearer [redacted]"}'),
        ("Basic dXNlcjpwYXNz", "Basic [redacted]"),
        ("your token-1234, and token-12345", "your [redacted], and [redacted]"),
        ("only abcdefgh of it", "only [redacted] of it"),
        ("tok\u200ben-1234", "[redacted]"),
        ("x" * 1020 + "token-12345", "x" * 1020 + "[red"),
        ("abc stays", "abc stays"),
    ],
)
def test_secrets_are_redacted(body: str, text: str) -> None:
    redact = ("token-1234", "token-12345", "Token abcdefgh", "abc", "")
    assert excerpt(body.encode(), None, redact) == text


@pytest.mark.parametrize(
    "secret", ["s3cret/with/slashes", 's3cret "quoted" \\ here', "s3cret\ttab"]
)
@pytest.mark.parametrize("slash", ["/", "\\/"])
def test_a_secret_is_redacted_as_json_writes_it(secret: str, slash: str) -> None:
    echoed = json.dumps({"x-key": secret, "n": 1}).replace("/", slash)
    assert excerpt(echoed.encode(), None, (secret,)) == '{"x-key": "[redacted]", "n": 1}'


def test_no_part_of_a_secret_stands_where_a_long_answer_was_cut() -> None:
    secret = "s3cret" * 1_000
    assert excerpt(f"{secret}, {secret}".encode(), None, (secret,)) == "[redacted], "
