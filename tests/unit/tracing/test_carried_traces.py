"""What a record's `traceparent` says, whoever wrote it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded_spans import SAMPLED, UNSAMPLED

from streams.tracing import carried

MALFORMED = [
    None,
    "",
    "00-ab-cd-01",
    f"00-{'0' * 32}-{'b' * 16}-01",
    f"00-{'a' * 32}-{'0' * 16}-01",
    f"ff-{'a' * 32}-{'b' * 16}-01",
    SAMPLED.upper(),
    f"{SAMPLED}\n",
    f" {SAMPLED}",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_trace_is_none_and_is_not_recorded(text: str | None) -> None:
    assert carried.context_of(text) is None
    assert not carried.is_sampled(text)


@given(st.text() | st.from_regex(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}"))
def test_no_text_raises_and_what_is_read_is_written_alike(text: str) -> None:
    context = carried.context_of(text)
    assert carried.is_sampled(text) == (context is not None and context.trace_flags.sampled)
    if context is not None:
        assert carried.text_of(context)[2:] == text[2:]


@pytest.mark.parametrize(
    ("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True), ("ff", True)]
)
def test_the_lowest_flag_alone_says_that_a_trace_is_sampled(flags: str, sampled: bool) -> None:
    assert carried.is_sampled(SAMPLED[:-2] + flags) == sampled


def test_a_trace_that_is_not_sampled_keeps_its_ids() -> None:
    assert carried.unsampled(SAMPLED) == UNSAMPLED
    fresh = carried.unsampled("no trace")
    assert carried.context_of(fresh) is not None
    assert not carried.is_sampled(fresh)


def test_ids_of_leases_and_attempts_follow_from_their_names_and_differ() -> None:
    made = [
        carried.lease_span("job_a", 1),
        carried.lease_span("job_a", 2),
        carried.lease_span("job_b", 1),
        carried.attempt_span("job_a", 1),
    ]
    assert len(set(made)) == 4
    assert carried.lease_span("job_a", 1) == made[0]
    assert carried.context_of(carried.with_span(SAMPLED, made[0])).span_id == made[0]  # type: ignore[union-attr]
