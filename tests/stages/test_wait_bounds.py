"""Waits under load, and where what they count on ends: nothing is lost, repeated or wedged."""

from __future__ import annotations

import dataclasses
import json
from functools import partial
from typing import Any

import pytest
from support.counted_work import instructions
from support.dispatching import ROUTES
from support.waiter import HOUR, Waiter, event_wait, sleep

from streams.dispatcher import wait_ends, wait_faults
from streams.dispatcher.part import AT_ONCE
from streams.dispatcher.parts import waits
from streams.dispatcher.parts.waits import Waits
from streams.event_match import match_of
from streams.serde.records import Lease, Listen, StepResult, Wait, WaitOver
from streams.serde.sizes import MAX_WAITS_BYTES
from streams.topology.model import Events, JobType

DECLARED = {"draft_reply": JobType("draft_reply", waits_for=(Events("zendesk", "reply.*"),))}


def listen(at: Waiter, lease: Lease, wait: Wait) -> None:
    body = Listen(wait.id, lease.run_id, wait)
    at.desk.command(body, lease.job_id, lease.epoch)


def behind(left: StepResult) -> Wait:
    """The next wait of a loop, behind the event that the last one got."""
    taken = json.loads(left.value or "")
    since, after = str(taken["at"]), taken["event"]["event_id"]
    return event_wait(id_="answer#2", behind=taken["number"], since=since, after_event=after)


def memory(at: Waiter) -> Any:
    """What the part has in memory beside its store."""
    task = at.desk.driver.task("dispatcher")
    waits: Any = task._processor._processor._hooks.parts[Waits]  # type: ignore[attr-defined]
    index, recent, offers = waits._open, waits._recent, waits._offers
    known = recent._last, recent._forgotten, dict(recent._since)
    return dict(index._found_by), index._jobs, known, offers._left, dict(offers._tenants)


def test_a_backlog_of_events_is_worked_off_while_more_come() -> None:
    at = Waiter()
    leases = at.jobs(2 * AT_ONCE)
    with at.desk.held_back():
        for lease in leases:
            at.park(lease, event_wait())
    at.reply("t1")
    for number in range(100):
        at.reply("t1", type_=f"reply.{number}")
    at.desk.driver.advance(0.2)
    assert at.index() == []


def test_a_tenants_backlog_holds_up_no_other() -> None:
    at = Waiter()
    with at.desk.held_back():
        for lease in at.jobs(AT_ONCE + 50):
            at.park(lease, event_wait())
    theirs = at.go_on(at.desk.event("x", tenant="globex"))
    body = dataclasses.replace(at.ended(theirs), waits=(event_wait(),))
    at.desk.command(body, theirs.job_id, theirs.epoch, tenant="globex")
    with at.desk.driver.together():
        at.reply("t1")
        at.reply("t1", tenant="globex")
    assert at.status(theirs) != "waiting"


@pytest.mark.parametrize("how", ["park", "listen"])
@pytest.mark.parametrize("match", ["none", "[]", "{}", '{"subject":"a","new":"b"}'])
def test_a_match_that_cannot_be_read_is_refused(match: str, how: str) -> None:
    at = Waiter()
    lease, wait = at.job(), dataclasses.replace(event_wait(), match=match)
    if how == "listen":
        listen(at, lease, wait)
    at.park(lease, wait)
    assert (at.left(lease)["answer"].raises, at.index()) == ("WaitRefused", [])


@pytest.mark.parametrize("how", ["park", "listen"])
@pytest.mark.parametrize(
    "wait", [event_wait(id_="a\0b"), Wait("a", "job", 0, b"", job_id="job_\0")]
)
def test_a_wait_with_a_nul_is_a_dead_letter(wait: Wait, how: str) -> None:
    at = Waiter()
    lease = at.job()
    (listen if how == "listen" else at.__class__.park)(at, lease, wait)
    assert at.desk.refusals() == ["bad_id"]


@pytest.mark.parametrize("order", ["before", "after"])
def test_an_event_of_a_broker_whose_clock_is_behind_is_not_missed(order: str) -> None:
    at = Waiter()
    lease = at.job()
    at.desk.driver.advance(2)
    at.reply("t1")
    at.park(lease, event_wait(since="now" if order == "after" else "job"))
    if order == "after":
        at.reply("t1")
    wait = behind(at.left(lease)["answer"])
    again = at.desk.lease(lease.job_id)
    if order == "after":
        at.park(again, wait)
    at.reply("t1", type_="reply.two", at=at.desk.driver.now - 900)
    if order == "before":
        at.park(again, wait)
    assert "answer#2" in at.left(lease)


def test_a_timer_that_the_schedulers_clock_found_due_ends_the_wait() -> None:
    at = Waiter()
    lease = at.job()
    at.park(lease, sleep(60))
    at.desk.driver.advance(59.99)
    at.desk.command(WaitOver(1, at.desk.job(lease.job_id).waits[0].until or 0), lease.job_id)
    assert at.status(lease) != "waiting"


def test_a_longer_lookback_does_not_reach_what_is_forgotten() -> None:
    at = Waiter(lookback_ms=60_000)
    lease = at.job()
    at.reply("t1")
    at.worker.stay(200, lease)
    at.desk.start_with(*ROUTES, lookback_ms=HOUR * 1000)
    at.worker.stay(1, lease)
    at.park(lease, event_wait())
    assert at.left(lease)["answer"].raises == "WaitRefused"


@pytest.mark.parametrize("declared", [True, False])
def test_a_wait_behind_an_event_after_which_some_were_not_kept_is_refused(declared: bool) -> None:
    at = Waiter(declared=declared, lookback_ms=60_000)
    lease = at.job()
    at.park(lease, event_wait(since="now"))
    at.reply("t1", type_="reply.one")
    wait = behind(at.left(lease)["answer"])
    again = at.desk.lease(lease.job_id)
    at.reply("t1", type_="reply.two")
    if declared:
        at.worker.stay(100, again)
    else:
        at.desk.start_with(*ROUTES, job_types=DECLARED)
    at.park(again, wait)
    assert at.left(lease)["answer#2"].raises == "WaitRefused"


def test_a_type_that_was_not_declared_for_a_moment_is_kept_from_then_on() -> None:
    at = Waiter()
    lease = at.job()
    at.desk.deploy(job_types={})
    at.reply("t1")  # before the first punctuation
    at.desk.deploy(job_types=DECLARED)
    at.desk.driver.advance(0.5)
    at.park(lease, event_wait())
    assert at.left(lease)["answer"].raises == "WaitRefused"


def test_waits_that_take_events_alone_are_served_in_the_order_of_their_parks() -> None:
    at = Waiter()
    leases = sorted(at.jobs(12), key=lambda lease: lease.job_id, reverse=True)
    with at.desk.held_back():
        for lease in leases:
            at.park(lease, event_wait(takes_it_alone=True))
    at.reply("t1")
    assert [at.status(lease) == "waiting" for lease in leases] == [False] + [True] * 11


def test_one_park_takes_an_event_for_one_of_its_waits_alone() -> None:
    at = Waiter()
    lease = at.job()
    at.reply("t1")
    alone = [event_wait(id_=id_, takes_it_alone=True, group=n) for n, id_ in enumerate("ab")]
    at.park(lease, *alone)
    assert (list(at.left(lease)), len(at.index())) == (["a"], 1)


def test_a_wait_that_loses_an_event_to_another_of_its_park_ends_with_a_later_one_in_its_turn() -> (
    None
):
    at = Waiter()
    lease, other = at.job("a"), at.job("b")
    for subject in ("t1", "t2", "t1"):
        at.reply(subject)
    one = event_wait("t1", "one", takes_it_alone=True)
    loser = dataclasses.replace(one, id="loser", group=1)
    at.park(lease, one, loser, event_wait("t2", "first", group=1))
    assert sorted(id_ for id_ in at.left(lease) if not id_.endswith("!")) == ["first", "one"]
    at.park(other, event_wait("t1", takes_it_alone=True))
    assert at.status(other) != "waiting", "the loser, which was dropped, took the last event"


def test_waits_of_one_park_that_take_events_alone_get_one_each_in_their_order() -> None:
    at = Waiter()
    lease = at.job()
    for _ in range(3):
        at.reply("t1")
    waits = [event_wait(id_=f"w{n}", takes_it_alone=True, needs_all=True) for n in range(4)]
    at.park(lease, *waits)
    assert [wait.id for wait in at.desk.job(lease.job_id).waits] == ["w3"]
    at.reply("t1")
    left = at.left(lease)
    assert [left[f"w{n}"].number for n in range(4)] == sorted(each.number for each in left.values())


def test_a_time_that_was_over_ends_a_wait_that_takes_events_alone_before_one_that_another_got() -> (
    None
):
    at = Waiter()
    lease = at.job()
    at.desk.driver.advance(5)
    over = at.desk.driver.now - 2_000
    at.reply("t1")
    one = event_wait("t1", "one", takes_it_alone=True)
    late = event_wait("t2", "late", takes_it_alone=True, until=over, group=2)
    at.park(lease, one, dataclasses.replace(one, id="other", group=1), late)
    left = at.left(lease)
    assert (sorted(left), left["late"].raises) == (["late", "one"], "WaitTimeout")
    assert left["late"].number == left["one"].number, "the handler takes it for the first"


@pytest.mark.parametrize("first", ["subject", "attribute"])
def test_an_event_goes_to_the_wait_that_began_first_whatever_finds_it(first: str) -> None:
    at = Waiter()
    by_subject = event_wait(takes_it_alone=True)
    found_by = {"source": "zendesk", "attributes": {"subject": "t1"}}
    text = match_of({"event_type": "reply.*", **found_by}).text()
    by_attribute = dataclasses.replace(by_subject, match=text)
    leases = at.jobs(AT_ONCE + 20)
    waits = [by_subject, by_attribute] if first == "subject" else [by_attribute, by_subject]
    with at.desk.held_back():
        for number, lease in enumerate(leases):
            at.park(lease, waits[number % 2])
    for _ in range(3):
        at.reply("t1")
    at.desk.driver.advance(1)
    assert [at.status(lease) == "waiting" for lease in leases[:4]] == [False, False, False, True]


@pytest.mark.parametrize("taken_by", ["park", "end"])
def test_an_event_that_is_taken_while_it_is_offered_goes_to_one_alone(taken_by: str) -> None:
    at = Waiter()
    *leases, one, two = at.jobs(AT_ONCE + 50)
    with at.desk.held_back():
        for lease in leases:
            at.park(lease, event_wait(match={"where": "subject == 'no'"}))
        if taken_by == "end":
            at.park(one, event_wait(takes_it_alone=True, timeout_ms=60_000))
        at.park(two, event_wait(takes_it_alone=True))
    at.worker.stay(59, one)
    at.reply("t1")
    if taken_by == "end":
        until = at.desk.job(one.job_id).waits[0].until or 0
        at.desk.command(WaitOver(1, until), one.job_id)
    else:
        at.park(one, event_wait(takes_it_alone=True))
    at.desk.driver.advance(0.5)
    assert (at.status(one) == "waiting", at.status(two) == "waiting") == (False, True)


def test_an_event_that_is_offered_longer_than_it_is_kept_is_not_kept_anew() -> None:
    at = Waiter(lookback_ms=60_000)
    *leases, last = at.jobs(AT_ONCE + 50)
    with at.desk.held_back():
        for lease in leases:
            at.park(lease, event_wait(match={"where": "subject == 'no'"}))
        at.park(last, event_wait(takes_it_alone=True))
    at.reply("t1")
    at.reply("t2")
    assert at.status(last) == "waiting"
    at.desk.driver._clock.ms += 70_000  # the stage was away
    at.worker.stay(2)
    store = at.desk.driver.store("dispatcher", "parts")
    assert (at.status(last) == "waiting", list(store.range(b"d", b"e"))) == (False, [])


def test_a_wait_is_held_against_a_bounded_number_of_recent_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wait_ends, "MOST_LOOKED", 5)
    at, wait = Waiter(), event_wait(match={"where": "subject == 'no'"})
    for key, count in (("a", 5), ("b", 6)):
        at.desk.driver.advance(1)
        lease = at.job(key)
        for _ in range(count):
            at.reply("t1")
        at.park(lease, wait)
        if key == "a":
            assert at.status(lease) == "waiting", "earlier events do not count"
    assert at.left(lease)["answer"].raises == "WaitRefused"


def test_so_it_is_against_what_overtook_its_park(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_ends, "MOST_LOOKED", 5)
    at, wait = Waiter(), event_wait(since="now", match={"where": "subject == 'no'"})
    lease, parked_at = at.job(), at.desk.driver.now
    at.desk.driver.advance(10)  # the stage was away
    for _ in range(6):
        at.reply("t1", at=parked_at + 5_000)
    body = dataclasses.replace(at.ended(lease), waits=(wait,))
    at.desk.command(body, lease.job_id, lease.epoch, at=parked_at)
    assert at.left(lease)["answer"].raises == "WaitRefused"


def test_a_wait_does_not_look_at_what_came_long_before_it_counts() -> None:
    at, park, wait = Waiter(), Waiter.park, event_wait(since="job")
    work = []
    for number, count in enumerate((100, 3_000)):
        with at.desk.held_back():
            for _ in range(count):
                at.reply("t1")
        at.desk.driver.advance(2)
        lease = at.job(f"j{number}")
        work.append(instructions(partial(park, at, lease, wait)))
        assert at.status(lease) == "waiting"
        at.desk.cancel(lease.job_id)
    assert work[1] < 1.5 * work[0]


def test_of_many_events_the_first_is_found_that_came_since_then() -> None:
    at, sent = Waiter(), []
    begin = at.desk.driver.now
    with at.desk.held_back():
        for number in range(200):
            back = 900 if number % 7 == 3 else 0  # of a broker whose clock is behind
            sent.append(begin + 400 * number - back)
            at.reply("t1", type_=f"reply.{number}", at=sent[-1])
    at.desk.driver.advance(90)
    for number in range(0, 200, 9):
        lease, since = at.job(f"j{number}"), begin + 400 * number
        at.park(lease, event_wait(since=str(since)))
        found = json.loads(at.left(lease)["answer"].value or "")["event"]["event_type"]
        first = next(n for n, each in enumerate(sent) if each >= since)
        assert found == f"reply.{first}"


def test_a_job_has_a_bounded_number_of_open_waits() -> None:
    at = Waiter()
    lease = at.job()
    with at.desk.held_back():
        for number in range(wait_faults.MOST_OPEN + 5):
            listen(at, lease, event_wait(f"s{number}", f"w{number}", since="now"))
    assert len(at.index()) == wait_faults.MOST_OPEN


def test_a_park_that_would_be_too_many_waits_says_how_many_there_are_and_may_be() -> None:
    at = Waiter()
    lease = at.job()
    with at.desk.held_back():
        for number in range(60):
            listen(at, lease, event_wait(f"s{number}", f"w{number}", since="now"))
    at.park(lease, *(event_wait(f"t{number}", f"p{number}") for number in range(100)))
    told = at.left(lease)["p0"].message
    assert "would have 160 open waits, 60 of which it listens to, and 150 are the most" in told
    assert len(at.index()) == 60


def test_the_open_waits_of_a_job_have_a_bounded_size() -> None:
    at = Waiter()
    lease, subject = at.job(), "s" * 2_000
    most = MAX_WAITS_BYTES // event_wait(subject, "w100").size
    with at.desk.held_back():
        for number in range(100, 245):
            listen(at, lease, event_wait(subject, f"w{number}", since="now"))
    assert len(at.index()) == most < 145


def test_a_job_goes_on_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "MOST_RESUMES", 2)
    at = Waiter()
    lease = at.job()
    for number in range(3):
        at.park(lease, sleep(1, f"nap{number}"), event_wait(group=1))
        if number < 2:
            at.desk.driver.advance(2)
            lease = at.go_on(lease.job_id)
    assert (at.status(lease), at.index(), at.timers()) == ("failed", [], 0)
    assert [letter.reason for letter in at.desk.dead_letters()] == ["too_many_waits"]


def test_a_wait_without_a_timeout_begins_though_bodies_are_kept_for_longer_than_a_year() -> None:
    at = Waiter()
    topics = at.desk.topology.topics
    kept = dataclasses.replace(topics["payloads"], retention_ms=400 * 24 * HOUR * 1000)
    at.desk.start_with(*ROUTES, topics={**topics, "payloads": kept})
    lease = at.job()
    at.park(lease, event_wait())
    assert at.status(lease) == "waiting"


def test_what_is_in_memory_follows_an_undone_step() -> None:
    at = Waiter()
    one, two = at.jobs(2)
    at.park(one, event_wait(takes_it_alone=True), sleep(50, "nap"))
    at.desk.driver.advance(1)
    before = memory(at)
    with at.desk.held_back():
        at.reply("t1")
        at.park(two, event_wait("t3"), Wait("j", "job", 0, b"", group=0, job_id=one.job_id))
        at.desk.abort()
        assert memory(at) == before
    assert memory(at) != before
    assert (at.status(one) == "waiting", at.status(two)) == (False, "waiting")
