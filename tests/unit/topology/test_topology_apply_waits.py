"""`apply` ends only when the cluster shows what was asked of it, or says what it does not show."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

import pytest

from streams.errors import TidegateError
from streams.topology import apply as applying
from streams.topology.cluster import Cluster, ClusterTopic
from streams.topology.plan import (
    AddPartitions,
    ChangeConfig,
    CreateTopic,
    DeleteTopic,
    Plan,
    Refusal,
    Step,
)

BEFORE = {"old": ClusterTopic(1, 3, led=1), "events": ClusterTopic(1, 3, 1, {"retention.ms": "1"})}
LEADERLESS = {**BEFORE, "new": ClusterTopic(2, 3, led=1)}
DONE = {
    "new": ClusterTopic(2, 3, led=2),
    "events": ClusterTopic(2, 3, 2, {"retention.ms": "5"}),
}
STEPS: tuple[Step, ...] = (
    CreateTopic("new", 2, 3, {}),
    ChangeConfig("events", "retention.ms", "1", "5"),
    AddPartitions("events", 1, 2),
    DeleteTopic("old"),
)


class AcceptingAdmin:
    """Says yes to every request, and counts them."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def request(things: list[Any], request_timeout: float) -> dict[Any, Future[None]]:
            self.requests.append(name)
            done: Future[None] = Future()
            done.set_result(None)
            return dict.fromkeys(things, done)

        return request


def showing(monkeypatch: pytest.MonkeyPatch, *views: dict[str, ClusterTopic]) -> list[Any]:
    """The cluster shows one view after the other, the last for ever; returns what is left."""
    left = list(views)

    def read(admin: object, names: Iterable[str]) -> Cluster:
        return Cluster(3, left.pop(0) if len(left) > 1 else left[0])

    monkeypatch.setattr(applying, "read_cluster", read)
    monkeypatch.setattr(applying, "_POLL_SECONDS", 0)
    return left


def test_it_waits_until_topics_settings_and_deletions_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = showing(monkeypatch, BEFORE, LEADERLESS, BEFORE, DONE)
    admin = AcceptingAdmin()
    applying.execute(Plan(STEPS), admin)  # type: ignore[arg-type]
    assert left == [DONE]
    assert admin.requests == [
        "create_topics",
        "incremental_alter_configs",
        "create_partitions",
        "delete_topics",
    ]


@pytest.mark.parametrize("step", STEPS)
def test_each_step_that_never_shows_is_named(monkeypatch: pytest.MonkeyPatch, step: Step) -> None:
    showing(monkeypatch, LEADERLESS)
    monkeypatch.setattr(applying, "_SETTLE_SECONDS", 0)
    with pytest.raises(TidegateError) as told:
        applying.execute(Plan((step,)), AcceptingAdmin())  # type: ignore[arg-type]
    assert str(step) in str(told.value)


def test_a_plan_with_a_refusal_sends_nothing() -> None:
    admin = AcceptingAdmin()
    with pytest.raises(TidegateError, match="events: keys move"):
        applying.execute(Plan(STEPS, (Refusal("events", "keys move"),)), admin)  # type: ignore[arg-type]
    assert admin.requests == []
