"""What still exists of an old event: its body."""

from __future__ import annotations

from typing import Any, cast

import pytest

from streams.event_replay import standing
from streams.event_replay.standing import Standing
from streams.serde.records import PayloadRef


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
    monkeypatch.setattr(standing, "read_offsets", lambda *_: starts)
    assert Standing(cast(Any, None), "", 2, lambda _: None).has_body(ref) == there
