from collections.abc import Iterator
from pathlib import Path

import pytest
from replies import app

from streams.testing import Bench

TOPOLOGY = Path(__file__).with_name("replies.yaml")
TEXT = "my card 4242 4242 4242 4242, CASE-7, passport X12"


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench(app, topology=TOPOLOGY) as bench:
        yield bench


def test_what_a_handler_says_leaves_without_secrets(bench: Bench) -> None:
    job = bench.submit("draft_reply", {"customer": 1, "text": TEXT}).run()
    assert job.steps == {"customer": {"name": "Ann", "mail": "[redacted]", "iban": "[redacted]"}}
    assert job.progress == [{"stage": "looked up", "mail": "[redacted]"}]
    assert job.result == {
        "to": "Ann",
        "iban": "[redacted]",
        "text": "About my card [redacted], [redacted], passport [redacted]",
    }


def test_an_error_is_redacted_too(bench: Bench) -> None:
    job = bench.submit("draft_reply", {"customer": 1, "text": ""}).run()
    assert job.error == "PermanentError: [redacted] wrote nothing"
