"""Positions are carried over as soon as the broker can tell them, and an end is told."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException

from streams.errors import ConfigError, KafkaUnavailable
from streams.runtime import layouts
from streams.runtime.layouts import (
    Group,
    carry_over,
    group_fused,
    groups_apart,
    refuse_other,
)
from streams.settings import load_settings
from streams.topology.load import load

Place = tuple[str, int]


def answers(monkeypatch: pytest.MonkeyPatch, codes: Iterator[int]) -> list[int]:
    """Each question for positions fails with the next of some errors; then there are none."""
    asked: list[int] = []

    def positions(*_: object) -> dict[tuple[str, int], int]:
        asked.append(1)
        code = next(codes, None)
        if code is not None:
            raise KafkaException(KafkaError(code))
        return {}

    monkeypatch.setattr(layouts, "_positions", positions)
    monkeypatch.setattr(layouts, "_runs", lambda *_: False)
    monkeypatch.setattr(layouts, "_PAUSE_SECONDS", 0.0)
    return asked


def carry() -> dict[str, int]:
    return carry_over("fused", load(None), load_settings({}), None)  # type: ignore[arg-type]


def test_a_broker_that_has_yet_to_find_its_coordinators_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR]
    asked = answers(monkeypatch, iter(codes))
    assert carry() == {}
    assert len(asked) > len(codes)


def test_a_broker_that_does_not_list_its_groups_yet_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client lists such errors as they are, without an exception around them."""
    monkeypatch.setattr(layouts, "_positions", lambda *_: {})
    monkeypatch.setattr(layouts, "_PAUSE_SECONDS", 0.0)
    errors = [[KafkaError(KafkaError._TIMED_OUT)], [KafkaError(KafkaError.NOT_COORDINATOR)]]

    def list_consumer_groups(**_: object) -> Future[SimpleNamespace]:
        listed = Future[SimpleNamespace]()
        found = errors.pop(0) if errors else []
        listed.set_result(SimpleNamespace(errors=found, valid=[]))
        return listed

    admin: Any = SimpleNamespace(list_consumer_groups=list_consumer_groups)
    assert carry_over("fused", load(None), load_settings({}), admin) == {}
    assert errors == []


def test_a_right_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answers(monkeypatch, iter([KafkaError.GROUP_AUTHORIZATION_FAILED]))
    with pytest.raises(KafkaUnavailable, match=r"authorization failed.*then run this again"):
        carry()
    assert len(asked) == 1


def test_who_has_just_ended_is_waited_for_even_without_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers(monkeypatch, iter([]))
    members = {"dedup": [1, 1], "scheduler": [], "dispatcher": [1]}
    monkeypatch.setattr(
        layouts, "_runs", lambda group, *_: members[group.name] and members[group.name].pop()
    )
    assert carry() == {}
    assert members == {"dedup": [], "scheduler": [], "dispatcher": []}


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "_PATIENCE_SECONDS", -1.0)
    answers(monkeypatch, iter([KafkaError.NOT_COORDINATOR]))
    with pytest.raises(KafkaUnavailable, match="not all moved"):
        carry()


def test_a_separate_stage_asks_only_for_positions_of_its_own_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its user may not see the others."""
    asked: list[Group] = []
    monkeypatch.setattr(layouts, "_runs", lambda *_: False)
    monkeypatch.setattr(layouts, "_positions", lambda group, _: asked.append(group))
    refuse_other("scheduler", load(None), load_settings({}), None)  # type: ignore[arg-type]
    assert [(group.name, {topic for topic, _ in group.places}) for group in asked] == [
        ("pipeline", {"schedule"})
    ]


def test_a_group_without_inputs_is_not_asked_for_its_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With no stage fused the user of the topology has no right on `pipeline`."""
    monkeypatch.setattr(layouts, "_reader", None)
    assert layouts._positions(Group("pipeline", ()), load_settings({})) == {}


class Listing:
    """An admin client that can only list: librdkafka aborts the process in other calls."""

    def __init__(self, state: ConsumerGroupState, *errors: KafkaException) -> None:
        group = SimpleNamespace(group_id="t.pipeline", state=state)
        self._answer = SimpleNamespace(valid=[group], errors=list(errors))

    def list_consumer_groups(self, **_: object) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(self._answer)
        return future


def runs(admin: Listing, name: str) -> bool:
    settings = load_settings({"TIDEGATE_TOPIC_PREFIX": "t."})
    return layouts._runs(layouts.Group(name, ()), settings, admin)  # type: ignore[arg-type]


def test_who_runs_is_found_without_asking_a_coordinator() -> None:
    assert runs(Listing(ConsumerGroupState.STABLE), "pipeline")
    assert not runs(Listing(ConsumerGroupState.STABLE), "dedup")
    assert not runs(Listing(ConsumerGroupState.EMPTY), "pipeline")
    assert not runs(Listing(ConsumerGroupState.DEAD), "pipeline")


def test_a_broker_that_did_not_list_its_groups_may_have_the_one_that_runs() -> None:
    loading = KafkaException(KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS))
    with pytest.raises(KafkaException):
        runs(Listing(ConsumerGroupState.EMPTY, loading), "pipeline")


class Groups:
    """The positions of all groups, as a broker would keep them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, held: dict[str, dict[Place, int]]) -> None:
        self.held = held
        self.admin: Any = SimpleNamespace(delete_consumer_groups=self._delete)
        monkeypatch.setattr(layouts, "_positions", lambda group, _: dict(self._of(group)))
        monkeypatch.setattr(layouts, "_commit", self.commit)
        monkeypatch.setattr(layouts, "_await_end", lambda *_: None)
        monkeypatch.setattr(layouts, "_refuse_loss", lambda *_: None)

    def commit(self, group: Group, found: dict[Place, int], _: object) -> int:
        mine = {place: found[place] for place in group.places if place in found}
        self._of(group).update(mine)
        return len(mine)

    def _of(self, group: Group) -> dict[Place, int]:
        return self.held.setdefault(group.name, {})

    def _delete(self, names: list[str], **_: object) -> dict[str, Future[None]]:
        done = Future[None]()
        done.set_result(None)
        return {name: done for name in names if self.held.pop(name) is not None}


def test_a_move_that_is_undone_in_its_middle_deletes_no_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topology, settings = load(None), load_settings({})
    fused = group_fused(topology)
    before = dict.fromkeys(fused.places, 7)
    groups = Groups(monkeypatch, {fused.name: dict(before)})
    commit = groups.commit

    def undone_after_the_first(group: Group, found: dict[Place, int], given: object) -> int:
        moved = commit(group, found, given)
        monkeypatch.setattr(layouts, "_commit", commit)
        carry_over("fused", topology, settings, groups.admin)
        return moved

    monkeypatch.setattr(layouts, "_commit", undone_after_the_first)
    with pytest.raises(ConfigError, match="something else changes the positions"):
        carry_over("apart", topology, settings, groups.admin)
    assert groups.held[fused.name] == before
    carry_over("apart", topology, settings, groups.admin)
    apart = [groups.held[group.name] for group in groups_apart(topology)]
    assert {place: at for own in apart for place, at in own.items()} == before
    assert fused.name not in groups.held
