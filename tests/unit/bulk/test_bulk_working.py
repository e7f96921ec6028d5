"""What an attempt at a bulk act does with its items, orders and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from streams.bulk.act import Act
from streams.bulk.working import Hands, Working
from streams.serde.bulk_records import (
    BulkAsked,
    BulkBody,
    BulkCancelled,
    BulkItem,
    BulkPaused,
    BulkProgress,
    BulkRecord,
)

DIGEST = b"d"


def asked(**fields: Any) -> BulkAsked:
    given = BulkAsked(
        "a", "{}", "{}", "why", "admin", None, None, 0, (), {}, (1, 10, 100), None, DIGEST
    )
    return replace(given, **fields)


def items(count: int) -> list[BulkItem]:
    return [BulkItem(f"i{n}", n, "acme", DIGEST) for n in range(count)]


class World:
    """One act, the topic in its place, and items that fail, or that break the attempt."""

    def __init__(self, count: int, **fields: Any) -> None:
        self.act = Act("b1", asked(**fields), 1, "operator")
        self.items = {item.item: item for item in items(count)}
        self.dealt: list[str] = []
        self.written: list[BulkBody] = []
        self.failing: set[str] = set()
        self.broken: set[str] = set()
        self.silent: set[str] = set()
        self.unwritable: set[str] = set()
        self.unwritten = 0
        self.before_each: Callable[[Working, str], None] = lambda *_: None
        self.working: Working

    def told(self, body: BulkBody) -> None:
        self.act = self.act.folded(BulkRecord("b1", 1, "operator", body))

    def attempt(self) -> Working:
        hands = Hands(self._deal, self._write)
        self.working = Working(hands, self.act, tuple(self.items.values()), stuck=False)
        asyncio.run(self.working.run())
        assert self.working.over.is_set()
        return self.working

    async def _deal(self, act: Act, item: BulkItem) -> BulkItem:
        self.before_each(self.working, item.item)
        if item.item in self.broken:
            raise OSError("Kafka is away")
        self.dealt.append(item.item)
        if item.item in self.silent:
            return replace(item, outcome="asked")
        return replace(item, outcome="failed" if item.item in self.failing else "done")

    async def _write(self, bulk_id: str, bodies: Sequence[BulkBody]) -> None:
        assert bulk_id == "b1"
        if self.unwritten > 0:
            self.unwritten -= 1
            raise OSError("Kafka is away")
        if any(isinstance(b, BulkProgress) and b.status in self.unwritable for b in bodies):
            raise OSError("Kafka is away")
        self.written += bodies
        for body in bodies:
            if isinstance(body, BulkItem):
                self.items[body.item] = body
            else:
                self.told(body)

    @property
    def steps(self) -> list[int]:
        """How many items were dealt with at each progress that was written."""
        found = [b.done + b.failed for b in self.written if isinstance(b, BulkProgress)]
        return sorted(set(found))


def test_an_act_deals_with_each_item_once_in_growing_steps() -> None:
    world = World(30)
    assert not world.attempt().stuck
    assert world.dealt == [f"i{n}" for n in range(30)]
    assert world.steps == [0, 1, 11, 30]
    assert (world.act.status, world.act.progress and world.act.progress.done) == ("done", 30)


def test_steps_do_not_grow_while_nobody_answers() -> None:
    world = World(60)
    world.silent = {f"i{n}" for n in range(4)} | {f"i{n}" for n in range(5, 15)}
    world.attempt()
    counts = [b.done + b.asked for b in world.written if isinstance(b, BulkProgress)]
    assert counts[:8] == [0, 1, 2, 3, 4, 5, 15, 25]
    assert world.act.status == "done"


def test_a_result_is_durable_before_the_progress_that_counts_it() -> None:
    world = World(3)
    world.attempt()
    done = 0
    for body in world.written:
        done += isinstance(body, BulkItem)
        assert not isinstance(body, BulkProgress) or body.done <= done


def test_an_act_without_items_is_done_at_once() -> None:
    world = World(0)
    world.attempt()
    assert world.act.status == "done"


def test_an_heir_goes_on_with_the_items_that_wait() -> None:
    world = World(30)

    def die(working: Working, item: str) -> None:
        working.lost = working.released = item == "i15" or working.lost

    world.before_each = die
    world.attempt()
    counted = world.act.progress
    assert counted is not None
    assert counted.done == 11
    world.before_each = lambda *_: None
    world.dealt.clear()
    world.attempt()
    assert world.dealt == [f"i{n}" for n in range(11, 30)]
    assert world.act.status == "done"


def test_items_of_another_request_under_the_same_key_are_not_touched() -> None:
    world = World(3)
    world.items["i1"] = replace(world.items["i1"], digest=b"another")
    world.attempt()
    assert world.dealt == ["i0", "i2"]


def test_another_plan_of_the_same_request_is_dealt_with_from_its_first_item() -> None:
    world = World(12)

    def plan_anew(working: Working, item: str) -> None:
        if item == "i1" and working.act.asked != asked(plan=b"p"):
            world.items = {
                each.item: replace(each, digest=b"p", outcome="waiting") for each in items(13)
            }
            world.told(asked(plan=b"p"))
            working.act = world.act

    world.before_each = plan_anew
    world.attempt()
    assert world.act.unobeyed
    world.items = {each.item: replace(each, digest=b"p") for each in items(13)}
    world.act = replace(world.act, progress=None)
    world.dealt.clear()
    world.attempt()
    assert world.dealt == [f"i{n}" for n in range(13)]
    assert world.act.progress is not None
    assert (world.act.status, world.act.progress.done) == ("done", 13)


def test_a_pause_lets_the_items_under_way_end_and_a_resumption_goes_on() -> None:
    world = World(30)

    def order(working: Working, item: str) -> None:
        if item == "i5":
            world.told(BulkPaused(True))
            working.act = world.act

    world.before_each = order
    world.attempt()
    assert (world.act.status, len(world.dealt)) == ("paused", 11)
    assert not world.act.unobeyed
    world.told(BulkPaused(False))
    assert (world.act.status, world.act.unobeyed) == ("queued", True)
    world.attempt()
    assert (world.act.status, len(world.dealt)) == ("done", 30)


def test_a_cancelled_act_ends_and_says_why() -> None:
    world = World(30)
    world.told(BulkCancelled("wrong filter"))
    assert world.act.status == "cancelling"
    world.attempt()
    assert world.dealt == []
    progress = world.act.progress
    assert progress is not None
    assert (progress.status, progress.because) == ("cancelled", "wrong filter")
    assert not world.act.unobeyed


def test_too_many_failures_stop_an_act_until_a_person_lets_it_go_on() -> None:
    world = World(30, stop_at_failures=2)
    world.failing = {"i0", "i3", "i20"}
    world.attempt()
    progress = world.act.progress
    assert progress is not None
    assert (world.act.status, progress.because) == ("stopped", "2 items failed, and 2 stop it")
    assert len(world.dealt) == 11
    assert not world.act.unobeyed
    world.told(BulkPaused(False, world.act.stops))
    assert world.act.status == "queued"
    world.attempt()
    assert (world.act.status, len(world.dealt)) == ("done", 30)


def test_a_resumption_that_came_before_the_stop_does_not_undo_it() -> None:
    world = World(30, stop_at_failures=1)
    world.failing = {"i0"}
    world.told(BulkPaused(False, world.act.stops))
    world.attempt()
    assert (world.act.status, world.act.unobeyed) == ("stopped", False)


def test_a_stop_that_an_earlier_owner_writes_rests_until_a_person_lets_it_go_on() -> None:
    world = World(60, stop_at_failures=25)
    stopped = BulkProgress("stopped", failed=5, stops=1, because="5 items failed")

    def stop(working: Working, item: str) -> None:
        if item == "i5":
            world.told(stopped)
            working.act = world.act

    world.before_each = stop
    world.attempt()
    progress = world.act.progress
    assert progress is not None
    assert (progress.status, progress.stops, progress.because) == ("stopped", 1, "5 items failed")
    assert (progress.done, world.act.status, world.act.unobeyed) == (11, "stopped", False)
    world.told(BulkPaused(False, world.act.stops))
    world.attempt()
    assert (world.act.status, len(world.dealt)) == ("done", 60)


def test_a_stop_that_could_not_be_written_is_none_the_less() -> None:
    world = World(30, stop_at_failures=1)
    world.failing = {"i0"}
    world.unwritable = {"stopped"}
    assert world.attempt().stuck
    world.unwritable = set()
    world.attempt()
    progress = world.act.progress
    assert progress is not None
    assert (progress.status, progress.stops, progress.failed) == ("stopped", 1, 1)
    assert progress.because == "1 items failed, and 1 stop it"
    assert world.dealt == ["i0"]


def test_failures_stop_an_act_whose_attempts_break() -> None:
    world = World(100, ramp=(), stop_at_failures=2)
    world.failing = {f"i{n}" for n in range(100)}
    world.broken = {"i5"}
    assert world.attempt().stuck
    world.attempt()
    assert (world.act.status, len(world.dealt)) == ("stopped", 19)
    world.told(BulkPaused(False, world.act.stops))
    world.broken = set()
    world.attempt()
    assert world.act.stops == 2


def test_an_heir_stops_at_the_failures_of_an_owner_that_was_killed_before_it_did() -> None:
    world = World(30, stop_at_failures=1)
    world.items["i0"] = replace(world.items["i0"], outcome="failed")
    world.told(BulkProgress("running"))
    world.attempt()
    assert (world.act.status, world.dealt) == ("stopped", [])


def test_an_end_that_an_earlier_owner_wrote_over_is_written_once_more() -> None:
    world = World(3)
    world.attempt()
    done = world.act.progress
    world.told(BulkProgress("running", done=1))
    assert world.act.unobeyed
    world.written.clear()
    world.attempt()
    assert world.written == [done]
    assert (world.act.status, world.act.unobeyed, len(world.dealt)) == ("done", False, 3)


def test_an_end_that_cannot_be_written_once_more_keeps_its_counts() -> None:
    world = World(3)
    world.attempt()
    done = world.act.progress
    world.told(BulkProgress("running", done=1))
    world.items.clear()  # an owner keeps no items of an act that has ended
    world.written.clear()
    world.unwritten = 1
    assert world.attempt().stuck
    assert not world.attempt().stuck
    assert world.written == [done]


def test_a_fault_of_no_item_is_shown_and_the_item_is_tried_again() -> None:
    world = World(30)
    world.broken = {"i5"}
    assert world.attempt().stuck
    progress = world.act.progress
    assert progress is not None
    assert (progress.status, progress.done, progress.error) == ("running", 10, "Kafka is away")
    world.broken = set()
    assert not world.attempt().stuck
    assert world.act.progress is not None
    assert (world.act.status, world.act.progress.error) == ("done", None)
    assert sorted(world.dealt) == sorted(f"i{n}" for n in range(30))


def test_two_requests_that_took_one_key_at_once_end_the_act() -> None:
    world = World(3)
    world.told(asked(digest=b"another"))
    world.attempt()
    assert world.dealt == []
    assert world.act.status == "cancelled"
