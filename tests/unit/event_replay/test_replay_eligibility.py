"""What still exists of an old event: its body."""

from __future__ import annotations

from typing import Any, cast

import pytest

from streams.event_replay import eligibility
from streams.event_replay.eligibility import Eligibility
from streams.serde.records import PayloadRef
from streams.topology.load import load


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
