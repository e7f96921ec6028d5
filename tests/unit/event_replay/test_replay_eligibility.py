"""What still exists of an old event: its body."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from support.dispatching import envelope

from streams.event_replay import eligibility
from streams.event_replay.eligibility import Eligibility
from streams.serde.records import PayloadRef
from streams.topology.load import load
from streams.topology.model import Cancels, Route


@pytest.mark.parametrize(
    ("ref", "there"),
    [
        (PayloadRef(0, (5,), 12, "k"), True),
        (PayloadRef(0, (4,), 12, "k"), False),
        (PayloadRef(0, (7, 4), 12, "k"), False),
        (PayloadRef(1, (0,), 12, "k"), True),
        (PayloadRef(0, (), 0, "k"), True),
    ],
    ids=["kept", "purged", "its first chunk purged", "elsewhere", "empty"],
)
def test_a_body_is_there_as_long_as_all_of_its_chunks_are(
    monkeypatch: pytest.MonkeyPatch, ref: PayloadRef, there: bool
) -> None:
    starts = {("payloads", 0): 5, ("payloads", 1): 0}
    monkeypatch.setattr(eligibility, "read_offsets", lambda *_: starts)
    events = Eligibility(cast(Any, None), "", load(None), None, lambda _: None)
    assert events.has_body(ref) == there


def test_an_event_whose_route_only_cancels_gets_a_job_only_if_one_is_named() -> None:
    ends = Route("zendesk", "ticket.solved", None, "webhook", Cancels("follow_up", "subject"))
    topology = replace(load(None), routes=(ends,))
    solved, other = envelope("acme", "e1", "ticket.solved"), envelope("acme", "e2", "ticket.new")
    by_routes = Eligibility(cast(Any, None), "", topology, None, lambda _: "tenant_disabled")
    assert by_routes.job_for(solved) == (None, "cancels_only")
    assert by_routes.job_for(other) == (None, "no_route")
    named = Eligibility(cast(Any, None), "", topology, "reindex", lambda _: "tenant_disabled")
    assert named.job_for(solved) == (None, "tenant_disabled")
