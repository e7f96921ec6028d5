"""What a report keeps to itself, in which order it is, and how the command ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.doctor.finding import AREAS, Check, Finding, Report, Unseen, report
from streams.doctor.looking import Look, judged
from streams.errors import ConfigError

A, B = Check("cluster", "a"), Check("settings", "b")


def test_findings_are_in_the_order_of_the_areas() -> None:
    found = report([A.ok("1"), B.ok("2"), A.ok("3")], (), reached=True)
    assert [each.text for each in found.findings] == ["2", "1", "3"]
    assert AREAS.index("settings") < AREAS.index("cluster")


@pytest.mark.parametrize(
    ("findings", "reached", "code"),
    [
        ([A.ok("")], True, 0),
        ([A.warn("", "")], True, 0),
        ([A.skipped("")], True, 0),
        ([A.warn("", ""), A.fail("", "")], True, 3),
        ([A.fail("", "")], False, 1),
        ([], False, 1),
    ],
)
def test_the_exit_code_tells_failures_from_a_cluster_that_does_not_answer(
    findings: list[Finding], reached: bool, code: int
) -> None:
    assert Report(tuple(findings), reached).exit_code == code


def test_neither_secrets_nor_logins_of_urls_are_shown() -> None:
    told = A.fail("s3cret-token at http://me:pw@host:1/x", "curl http://me:pw@h -H 's3cret-token'")
    (found,) = report([told], {"s3cret-token"}, reached=True).findings
    assert found.text == "[secret] at http://host:1/x"
    assert found.remedy == "curl http://h -H '[secret]'"
    (found,) = report([A.fail("at me:pw-word@host:1: no", "")], (), reached=True).findings
    assert found.text == "at host:1: no"


def test_a_look_that_hangs_ends_in_time_and_says_so() -> None:
    hung = Look("a broker", threading.Event().wait, seconds=0.05)
    assert hung.seen() == Unseen("a broker: no answer came within 0.05 s")


def refusing(code: int) -> Callable[[], Any]:
    def look() -> None:
        raise KafkaException(KafkaError(code))

    return look


def test_a_missing_right_is_named_and_is_no_failure() -> None:
    seen = Look("x", refusing(KafkaError.CLUSTER_AUTHORIZATION_FAILED), "DescribeConfigs").seen()
    assert isinstance(seen, Unseen)
    assert "lacks the right DescribeConfigs" in seen.why
    (found,) = judged(A, lambda _: [A.ok("seen")], seen)
    assert found.status == "skipped"


def test_an_answer_that_is_no_right_says_what_kafka_said() -> None:
    seen = Look("topics", refusing(KafkaError.NOT_LEADER_FOR_PARTITION)).seen()
    assert isinstance(seen, Unseen)
    assert "NOT_LEADER" in seen.why


@pytest.mark.parametrize("error", [ConfigError("no such file"), ValueError("odd"), KeyError("x")])
def test_whatever_a_look_raises_is_told(error: Exception) -> None:
    def look() -> None:
        raise error

    seen = Look("a disk", look).seen()
    assert isinstance(seen, Unseen)
    assert "a disk" in seen.why


def test_a_check_that_fails_is_skipped_and_never_ok() -> None:
    def judge(value: int) -> Iterator[Finding]:
        yield A.ok("so far")
        raise ZeroDivisionError

    (found,) = judged(A, judge, 1)
    assert found.status == "skipped"
    assert "ZeroDivisionError" in found.text
