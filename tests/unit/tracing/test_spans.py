"""Which spans are recorded, and what they hold."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from support.recorded_spans import SAMPLED, UNSAMPLED, context, parent_id, recording, traceparent

from streams.serde.headers import is_traceparent
from streams.tracing import carried, spans


def test_while_traces_are_off_nothing_is_made_and_a_senders_trace_goes_on_as_it_is() -> None:
    for opened in (
        spans.root(SAMPLED, "a", {}),
        spans.within(SAMPLED, "b", {}),
        spans.child("c", {}),
        spans.sending("topic", 0),
    ):
        assert opened is spans.NOTHING
    assert spans.carried_on(SAMPLED) == SAMPLED
    assert carried.is_sampled(spans.carried_on(None)), "others may record"
    assert (spans.current(), spans.exemplar()) == (None, None)
    assert spans.record(None, "d", {}, spans.CLIENT, (1, 2)) is None


def test_a_root_goes_on_with_its_senders_trace_and_the_rest_is_below_it() -> None:
    with recording() as found:
        with spans.root(SAMPLED, "request", {}) as span:
            text = spans.carried_on(SAMPLED)
            exemplar = spans.exemplar()
            with spans.sending("events", 3):
                pass
        assert not trace.get_current_span().is_recording()
    request, sent = found.only("request"), found.only("send events")
    assert text[:35] == SAMPLED[:35]
    assert text == traceparent(request)
    assert parent_id(request) == int("b" * 16, 16)
    assert parent_id(sent) == context(request).span_id
    assert exemplar == {"trace_id": "a" * 32, "span_id": f"{context(request).span_id:016x}"}
    assert span.get_span_context() == context(request)


@pytest.mark.parametrize("given", [None, "no trace", UNSAMPLED])
def test_what_the_sampler_leaves_out_is_told_to_all_that_follows(given: str | None) -> None:
    with recording("parentbased_traceidratio", 0.0) as found, spans.root(given, "request", {}):
        text = spans.carried_on(given)
        assert spans.child("below", {}) is spans.NOTHING
        assert spans.within(text, "below", {}) is spans.NOTHING
        assert spans.exemplar() is None
    assert (found.all, text[-2:], is_traceparent(text)) == ([], "00", True)
    assert given != UNSAMPLED or text == UNSAMPLED


def test_a_sampler_without_a_parent_lets_no_sender_decide() -> None:
    with recording("traceidratio", 0.0) as found, spans.root(SAMPLED, "request", {}):
        assert spans.carried_on(SAMPLED) == UNSAMPLED
    assert found.all == []


@pytest.mark.parametrize("carrying", [None, "no trace", UNSAMPLED])
def test_only_what_carries_a_sampled_trace_is_recorded_further_on(carrying: str | None) -> None:
    with recording() as found:
        assert spans.within(carrying, "run", {}) is spans.NOTHING
        assert spans.child("step", {}) is spans.NOTHING, "there is no current span"
    assert found.all == []


def test_an_error_is_noted_by_its_type_alone() -> None:
    with (
        recording() as found,
        pytest.raises(ValueError, match="s3cret"),
        spans.within(SAMPLED, "run", {}),
    ):
        raise ValueError("s3cret")
    run = found.only("run")
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, None)
    assert dict(run.attributes or {}) == {"error.type": "ValueError"}
    assert (run.events, "s3cret" in found.text()) == ((), False)


def test_a_span_gets_the_id_that_it_is_told_and_the_next_one_a_random_one() -> None:
    with recording() as found:
        with spans.within(SAMPLED, "told", {}, span_id=7), spans.child("random", {}):
            pass
        spans.record(None, "recorded", {}, spans.CLIENT, (1_000, 2_000), span_id=8)
    assert context(found.only("told")).span_id == 7
    assert context(found.only("random")).span_id not in (7, 8)
    recorded = found.only("recorded")
    assert context(recorded).span_id == 8
    assert (recorded.start_time, recorded.end_time) == (1_000, 2_000)


def test_another_trace_is_not_replaced_by_the_current_span() -> None:
    other = f"00-{'c' * 32}-{'d' * 16}-01"
    with recording(), spans.root(SAMPLED, "release", {}):
        assert spans.continuing(SAMPLED) == spans.current()
        assert spans.continuing(other) == other
