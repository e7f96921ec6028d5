"""Messages of one failure are equal once their values are placeholders."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operator_cluster import make_job, make_letter

from streams.api.causes.grouping import failure_of
from streams.api.causes.normalization import MOST_CHARS, error_class, normalized

MESSAGES = [
    ("TimeoutError: ran past its 300 s", "TimeoutError: ran past its <number> s"),
    ("took 3.75 ms, 1,200 rows, 1e-05", "took <number> ms, <number> rows, <number>"),
    ("balance is -12.50, expected +3", "balance is <number>, expected <number>"),
    ("shard-12 of worker7", "shard-<number> of worker<number>"),
    ("KeyError: 'customer'", "KeyError: <text>"),
    ('no "Müller \\"sen.\\"" here', "no <text> here"),
    ("unknown column `total`", "unknown column <text>"),
    ("the tenant's limit isn't 5", "the tenant's limit isn't <number>"),
    ("job_d8utnr6f0dbu0aulueh5k9hsqk is gone", "<id> is gone"),
    ("no charge ch_3NqXkL2eZvKYlo2C", "no charge <id>"),
    ("evt_0198c7a2-5d5e-7c53-8a5e-2f3b0d5a9b11 is late", "<uuid> is late"),
    ("id 0198C7A2-5D5E-7C53-8A5E-2F3B0D5A9B11.", "id <uuid>."),
    ("at 0x7f3a2c001d90", "at <hex>"),
    ("commit 9f86d081884c7d65 failed", "commit <hex> failed"),
    ("12345678 and 1234567", "<number> and <number>"),
    ("a defaced facade", "a defaced facade"),
    ("due 2026-11-21T09:00:00.123Z", "due <time>"),
    ("due 2026-11-21 09:00:00 +01:00, not 2026-11-20", "due <time>, not <time>"),
    ("at 09:14:02,5 o'clock", "at <time> o'clock"),
    ("no mailbox ann.b+x@mail.acme.example", "no mailbox <mail>"),
    ("10.1.2.3:5432 refused", "<address> refused"),
    ("dial 2001:db8::ff00:42:8329: refused", "dial <address>: refused"),
    ("std::vector of mod::name", "std::vector of mod::name"),
    (
        "POST https://api.acme.example/v1/orders/4711/lines?limit=5 gave 503",
        "POST https://api.acme.example/v1/orders/<id>/lines?<query> gave <number>",
    ),
    (
        "see https://bob:pw@host.example:8080/status.",
        "see https://host.example:8080/status.",
    ),
    ("token eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9 expired", "token <id> expired"),
    ("missing [1, 2, 3, 44]", "missing [<number> ...]"),
    ("fields 'a', 'b' and 'c'", "fields <text> ... and <text>"),
    ("two\n  lines\tand\r\nmore", "two lines and more"),
    ("", ""),
    ("Übergröße: ٣ Stück", "Übergröße: <number> Stück"),
]


@pytest.mark.parametrize(("message", "expected"), MESSAGES)
def test_values_become_placeholders(message: str, expected: str) -> None:
    assert normalized(message) == expected


@pytest.mark.parametrize(
    "one_and_other",
    [
        ("order 1 of acme@a.example", "order 22 of bob@b.example"),
        ("GET https://a.example/x/1?y=2 failed", "GET https://a.example/x/999?z=1 failed"),
        ("got [1, 2]", "got [1, 2, 3, 4, 5]"),
        ("it's 'a' at 2026-01-01", "it's 'b' at 2025-12-31T00:00:00Z"),
        ("x 0xff y", "x 0xabcdef y"),
    ],
)
def test_failures_that_differ_in_values_alone_are_equal(one_and_other: tuple[str, str]) -> None:
    assert normalized(one_and_other[0]) == normalized(one_and_other[1])


@given(st.text(max_size=3_000))
def test_any_message_is_bounded_and_the_same_each_time(message: str) -> None:
    found = normalized(message)
    assert len(found) <= MOST_CHARS
    assert normalized(message) == found
    assert "://" in message or not any(each.isdecimal() for each in found)


@pytest.mark.parametrize(
    "odd", ["'", '"', "`", "'a", "a@", "1.", "a_", "0x", ":", "a://", "=-", "("]
)
def test_no_message_takes_long(odd: str) -> None:
    began = time.process_time()
    normalized(odd * 100_000)
    assert time.process_time() - began < 0.2


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("TimeoutError: slow", "TimeoutError"),
        ("smtplib.SMTPServerDisconnected: closed", "smtplib.SMTPServerDisconnected"),
        ("ZeroDivisionError", "ZeroDivisionError"),
        ("Kafka refuses it: too large", "permanent_error"),
        ("jobs: the record is not Avro", "permanent_error"),
        ("", "permanent_error"),
        ("E" * 500 + ": x", "E" * 100),
    ],
)
def test_the_class_is_what_a_message_begins_with_or_the_reason(message: str, expected: str) -> None:
    assert error_class(message, "permanent_error") == expected


def test_a_cause_is_of_type_class_message_and_version() -> None:
    base = make_letter(make_job(code="1.2"), detail="KeyError: 'a'")
    first = failure_of(base)
    same = make_letter(make_job("job_b", "beta", code="1.2"), detail="KeyError: 'b'")
    assert failure_of(same).cause_id == first.cause_id
    assert first.cause_id.startswith("cau_")
    others = [
        make_letter(make_job(code="1.3"), detail="KeyError: 'a'"),
        make_letter(make_job(), detail="KeyError: 'a'"),
        make_letter(make_job(code="1.2", type="other"), detail="KeyError: 'a'"),
        make_letter(make_job(code="1.2"), detail="ValueError: 'a'"),
        make_letter(make_job(code="1.2"), detail="KeyError: 'a' of b"),
        make_letter(make_job(code="1.2"), detail="KeyError: 'a'", kind="record", topic="events"),
    ]
    assert len({first.cause_id, *(failure_of(each).cause_id for each in others)}) == 7


def test_a_letter_whose_job_cannot_be_read_has_a_cause_without_a_version() -> None:
    letter = make_letter(make_job(), value=b"no job")
    assert failure_of(letter).code is None
