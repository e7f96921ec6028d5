"""Which stages run, in which layout, whether they move, and what holds them up."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient

from streams.doctor import groups
from streams.doctor.commands import Commands
from streams.doctor.finding import Finding
from streams.doctor.group_view import Ends, GroupSeen, GroupsSeen, read_groups
from streams.errors import TidegateError
from streams.settings import Settings
from streams.topology.load import load

TOPOLOGY = load()
COMMANDS = Commands(Settings(bootstrap="k:1", topic_prefix="t."), None, {})
READ = {t for stage in TOPOLOGY.stages.values() for t in stage.reads}
PLACES = [(topic, p) for topic in sorted(READ) for p in range(TOPOLOGY.partitions)]
EVENTS = ("events.received", 0)


def ends(at: int = 100, first: int = 0, stable: int | None = None) -> Ends:
    last = dict.fromkeys(PLACES, at)
    return Ends(
        dict.fromkeys(PLACES, first), last, last | {EVENTS: at if stable is None else stable}
    )


def group(name: str, *members: str, at: int = 100, before: int | None = None) -> GroupSeen:
    reads = {
        p: at
        for each in groups.expected(TOPOLOGY, "fused")
        if each.name == name
        for p in PLACES
        if p[0] in each.reads
    }
    reads = reads or {p: at for p in PLACES if p[0] in TOPOLOGY.stages[name].reads}
    return GroupSeen(name, members, dict.fromkeys(reads, at if before is None else before), reads)


PIPELINE = group("pipeline", "pipeline-0")


def seen(*found: GroupSeen, hidden: frozenset[str] = frozenset()) -> GroupsSeen:
    by_name: Mapping[str, GroupSeen] = {each.name: each for each in found}
    return GroupsSeen(by_name, hidden, ends(), ends(), frozenset())


def told(found: GroupsSeen) -> dict[str, Finding]:
    return {each.check: each for each in groups.stages(TOPOLOGY, found, "t.", COMMANDS)}


def test_a_fused_pipeline_is_ok_and_the_others_never_ran() -> None:
    found = told(seen(PIPELINE))
    assert {name: each.status for name, each in found.items()} == {
        "layout": "ok",
        "pipeline": "ok",
        "delivery": "skipped",
        "analytics": "skipped",
    }
    assert found["pipeline"].text == "1 process (pipeline-0)"


def test_stages_apart_are_told_by_their_own_names() -> None:
    found = told(seen(group("dedup", "dedup-0"), group("scheduler", "s-0")))
    assert found["dedup"].status == "ok"
    assert found["dispatcher"].status == "warn"
    assert (
        found["dispatcher"].remedy == "TIDEGATE_TOPIC_PREFIX=t. tidegate dispatcher --bootstrap k:1"
    )
    assert "pipeline" not in found


def test_on_a_new_cluster_nothing_runs_and_the_remedy_starts_it() -> None:
    found = told(seen())
    assert found["pipeline"].status == "warn"
    assert found["pipeline"].remedy == "TIDEGATE_TOPIC_PREFIX=t. tidegate pipeline --bootstrap k:1"


def test_both_layouts_at_once_fail() -> None:
    found = told(seen(PIPELINE, group("dedup", "dedup-0")))
    assert found["layout"].status == "fail"
    assert "pipeline runs, and so do dedup" in found["layout"].text


def test_positions_in_both_layouts_fail_although_one_runs() -> None:
    found = told(seen(PIPELINE, group("dedup")))
    assert found["layout"].status == "fail"
    assert "tidegate topology layout fused" in (found["layout"].remedy or "")


def test_a_group_without_members_says_how_much_waits_for_it() -> None:
    found = told(seen(group("pipeline", at=99)))["pipeline"]
    assert found.status == "warn"
    assert found.text == "no process of pipeline runs, and 32 records at most wait for it"


def test_a_stage_that_does_not_move_although_records_wait_is_named_with_its_inputs() -> None:
    found = told(seen(group("pipeline", "pipeline-0", at=50, before=50)))["pipeline"]
    assert found.status == "warn"
    assert "no position moved" in found.text


def test_marks_of_transactions_after_the_position_are_no_lag() -> None:
    found = told(seen(group("pipeline", "pipeline-0", at=98, before=98)))["pipeline"]
    assert found.status == "ok"


def test_records_that_the_retention_took_are_no_lag() -> None:
    idle = seen(group("pipeline", "pipeline-0", at=50, before=50))
    found = told(replace(idle, before=ends(first=100), after=ends(first=100)))["pipeline"]
    assert found.status == "ok"


def test_a_lag_that_grows_is_told_with_both_figures() -> None:
    slow = group("pipeline", "pipeline-0", at=60, before=50)
    grown = replace(seen(slow), after=ends(200))
    found = told(grown)["pipeline"]
    assert found.status == "warn"
    assert "4480 records after 1600" in found.text


def test_a_group_that_may_not_be_described_is_skipped_with_the_right() -> None:
    found = told(seen(PIPELINE, hidden=frozenset({"delivery"})))["delivery"]
    assert found.status == "skipped"
    assert "Describe on the group t.delivery" in found.text


def open_at(before: int, after: int, *, old: bool = False) -> GroupsSeen:
    places = frozenset({EVENTS}) if old else frozenset()
    return replace(seen(), before=ends(stable=before), after=ends(stable=after), old=places)


def test_a_transaction_that_stays_open_warns_and_one_that_is_old_fails() -> None:
    (found,) = groups.transactions(open_at(40, 40), "k:1", "t.")
    assert found.status == "warn"
    assert "events.received-0 wait at offset 40" in found.text
    assert "--max-transaction-timeout 0 --topic t.events.received;" in (found.remedy or "")
    (found,) = groups.transactions(open_at(40, 40, old=True), "k:1", "t.")
    assert found.status == "fail"


def test_transactions_that_end_are_the_usual_business() -> None:
    (found,) = groups.transactions(open_at(40, 60), "k:1", "t.")
    assert found.status == "ok"
    (found,) = groups.transactions(seen(), "k:1", "t.")
    assert found.status == "ok"


class NoGroups:
    """An admin client of a cluster that never had a group; to ask for one would make a topic."""

    def list_consumer_groups(self, request_timeout: float) -> Future[Any]:
        answer = Future[Any]()
        answer.set_result(SimpleNamespace(valid=[], errors=[]))
        return answer


def test_a_cluster_without_groups_is_asked_for_none() -> None:
    with pytest.raises(TidegateError, match="no stage has run"):
        read_groups(cast(AdminClient, NoGroups()), "", ["pipeline"], [], {"events"})


def test_records_that_came_after_the_first_look_are_no_lag_yet() -> None:
    """Positions that nothing else is committed with wait for a second."""
    burst = seen(group("pipeline", "pipeline-0", at=50, before=50))
    found = told(replace(burst, before=ends(50)))["pipeline"]
    assert found.status == "ok"
    busy = seen(group("pipeline", "pipeline-0", at=160, before=100))
    found = told(replace(busy, before=ends(150), after=ends(400)))["pipeline"]
    assert found.status == "ok"
