"""Jobs of jobs at the stage: none is lost, repeated or left behind, whatever ends in between."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from support.derived import processor
from support.dispatching import ROUTES
from support.family import Family, child_id, end_wait, gather_wait, spec
from support.waiter import sleep

from streams.dispatcher.children import make
from streams.dispatcher.parts import gathers as gathers_part
from streams.serde.codec import WORKFLOW
from streams.serde.keys import workflow_key
from streams.serde.records import ChildSpec, Ended
from streams.topology.limits import Limit
from streams.topology.model import JobType

DAY = 86_400
KEPT_DAYS = 30


@pytest.fixture
def family() -> Family:
    return Family()


def in_review(family: Family, job_id: str) -> None:
    """A job's run asks a person."""
    family.end(family.lease_of(job_id), "review", error="who knows", diverged="step")


def test_hundreds_that_wait_for_a_job_in_review_hear_of_its_replay_that_ends_at_once(
    family: Family,
) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    family.park(parent, sleep(100 * DAY))
    in_review(family, child)
    with family.desk.held_back():
        others = [family.desk.event(f"other{n}") for n in range(420)]
    leases = [lease for _ in range(3) for lease in family.go_on() if lease.job_id in others]
    with family.desk.held_back():
        for lease in leases:
            family.park(lease, end_wait("x", child))
    assert {family.job(each).status for each in others} == {"waiting"}
    with family.desk.held_back():
        family.desk.cancel("job_again", 1)  # it comes before the job, and ends it at once
        family.desk.replay("job_again", child)
    assert family.job("job_again").status == "cancelled"
    family.go_on(2)
    assert {family.job(each).status for each in others} == {"running"}


def test_what_a_replay_did_in_place_of_a_job_is_known_while_the_parent_lives(
    family: Family,
) -> None:
    parent = family.root()
    first, second = family.gather(parent, 2)
    leases = {lease.job_id: lease for lease in family.go_on()}
    family.end(leases[first], "review", error="who knows", diverged="step")
    family.park(leases[second], sleep(2 * KEPT_DAYS * DAY))
    family.desk.replay("job_again", first)
    family.end(family.lease_of("job_again"))
    family.worker.stay(1)
    family.pass_days(KEPT_DAYS + 20)
    family.pass_days(KEPT_DAYS)
    family.end(family.lease_of(second))
    again = family.lease_of(parent.job_id)
    found = family.outcomes(again, [first, second])
    assert [each[0] for each in found] == ["succeeded", "succeeded"]
    assert json.loads(found[0][1]) == "job_again"


def test_a_cancel_reaches_what_lives_below_jobs_that_ended_long_ago(family: Family) -> None:
    root = family.root()
    child = family.enqueue(root)
    family.park(root, sleep(300 * DAY))
    lease = family.lease_of(child)
    grandchild = family.enqueue(lease)
    family.end(lease)
    lease = family.lease_of(grandchild)
    last = family.enqueue(lease)
    family.end(lease)
    family.park(family.lease_of(last), sleep(200 * DAY))
    family.pass_days(2 * KEPT_DAYS)
    family.desk.cancel(root.job_id)
    family.go_on()
    assert family.job(last).status == "cancelled"
    assert family.leftovers() == []


def test_an_end_goes_down_past_a_job_whose_worker_has_not_stopped_it_yet(family: Family) -> None:
    root = family.root()
    child = family.enqueue(root)
    running = family.lease_of(child)
    waiting = family.enqueue(running)
    family.park(family.lease_of(waiting), sleep(200 * DAY))
    family.end(root, "failed", error="no")
    family.go_on()
    assert (family.job(child).status, family.job(waiting).status) == ("running", "cancelled")
    family.end(running, "cancelled")
    family.go_on()
    assert family.leftovers() == []


def test_a_long_chain_of_ended_jobs_leaves_nothing_behind(family: Family) -> None:
    lease = family.root()
    for _ in range(3):
        child = family.enqueue(lease)
        family.end(lease)
        lease = family.lease_of(child)
    family.park(lease, sleep(2 * KEPT_DAYS * DAY))
    family.pass_days(1.5 * KEPT_DAYS)
    family.pass_days(KEPT_DAYS)
    family.end(family.lease_of(child))
    assert family.leftovers() == []
    family.pass_days(KEPT_DAYS + 5)
    assert [r.value for r in family.desk.driver.output("workflows")][-1] is None


def test_a_failed_job_that_its_parents_replay_asks_for_again_keeps_its_steps(
    family: Family,
) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    lease = family.lease_of(child)
    family.worker.step(lease, "charge", '"done"')
    family.end(lease, "failed", error="no")
    family.end(parent, "failed", error="no")
    family.desk.replay("job_again", parent.job_id)
    again = family.lease_of("job_again")
    assert family.enqueue(again) == child
    lease = family.lease_of(child)
    assert [(left.id, left.value) for left in lease.steps] == [("charge", '"done"')]


def test_a_job_that_continued_and_failed_goes_on_with_the_input_that_it_had(
    family: Family,
) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    family.end(family.lease_of(child), "continued", result='"second"')
    family.end(family.lease_of(child), "failed", error="no")
    family.end(parent, "failed", error="no")
    family.desk.replay("job_again", parent.job_id)
    family.enqueue(family.lease_of("job_again"))
    assert family.lease_of(child).input == '"second"'


def test_a_job_that_is_being_cancelled_is_asked_for_again_once_it_has_ended(
    family: Family,
) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    running = family.lease_of(child)
    family.end(parent, "failed", error="no")
    assert family.job(child).cancel_requested
    family.desk.replay("job_again", parent.job_id)
    again = family.lease_of("job_again")
    assert again.steps == ()
    told = len(family.desk.replies())
    family.ask_for(again)
    assert len(family.desk.replies()) == told, "the run asks again"
    family.end(running, "cancelled")
    assert family.enqueue(again) == child
    family.end(family.lease_of(child))
    assert family.job(child).status == "succeeded"


def test_the_outcome_of_a_workflow_is_that_of_its_root(family: Family) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    family.end(parent)
    in_review(family, child)
    family.desk.replay("job_again", child)
    family.end(family.lease_of("job_again"))
    assert family.workflow(parent.job_id).status == "succeeded"
    assert family.workflow(parent.job_id).jobs == {"succeeded": 2, "cancelled": 1}


def test_the_replay_of_a_failed_job_alone_does_not_make_its_workflow_succeed(
    family: Family,
) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    family.end(family.lease_of(child), "failed", error="no")
    family.end(parent, "failed", error="no")
    family.desk.replay("job_again", child)
    family.end(family.lease_of("job_again"))
    assert family.workflow(parent.job_id).status == "failed"


def test_a_life_that_ends_in_the_step_in_which_the_next_one_begins_is_counted_as_ended(
    family: Family,
) -> None:
    parent = family.root()
    family.end(family.lease_of(family.enqueue(parent)))
    family.park(parent, sleep(8 * DAY))
    family.pass_days(9)
    family.boot()
    parent = family.lease_of(parent.job_id)
    ended = Ended(parent.run_id, "succeeded", "1", None, None, None)
    with family.desk.held_back():
        family.desk.logged(ended, parent.job_id, parent.epoch)
        family.desk.submit(parent.job_id)
    assert family.job(parent.job_id).incarnation == 2
    place = workflow_key("acme", parent.job_id)
    values = [r.value for r in family.desk.driver.output("workflows") if r.key == place]
    first = WORKFLOW.decode(values[-1] or b"")
    assert (first.status, first.jobs, first.kept) == ("succeeded", {"succeeded": 2}, 1)


def test_a_job_that_is_asked_for_again_stands_below_its_new_parent_alone(family: Family) -> None:
    parent = family.root()
    child = family.enqueue(parent)
    lease = family.lease_of(child)
    family.enqueue(lease)
    (grandchild,) = family.go_on()
    family.end(lease, "failed", error="no")
    family.end(parent, "failed", error="no")
    family.desk.replay("job_again", parent.job_id)
    again = family.lease_of("job_again")
    family.enqueue(again)
    family.end(grandchild, "cancelled")
    family.end(family.lease_of(child))
    family.end(again)
    assert family.leftovers() == []


def test_no_job_of_a_list_is_made_for_a_parent_that_is_being_cancelled(family: Family) -> None:
    parent = family.root()
    family.gather(parent, 40, limit=5, tolerated=40, parks=False)
    leases = [lease for lease in family.go_on() if lease.job_id != parent.job_id]
    family.desk.cancel(parent.job_id)
    for lease in leases:
        family.end(lease, "cancelled")
    family.go_on()
    assert sum(family.workflow(parent.job_id).jobs.values()) == 1 + len(leases)
    family.end(parent, "cancelled")
    family.go_on()
    assert family.leftovers() == []


def test_a_gather_whose_time_is_over_says_how_many_of_its_jobs_were_made(
    family: Family,
) -> None:
    parent = family.root()
    ids = family.gather(parent, 5, limit=2, parks=False)
    family.park(parent, gather_wait(timeout_ms=10_000))
    leases = {lease.job_id: lease for lease in family.go_on()}
    family.end(leases[ids[0]])
    (third,) = family.go_on()
    again = family.lease_of(parent.job_id, 15)
    (left,) = again.steps
    told = "gather[all]: its time is over: 3 of 5 are made, 1 of them have ended"
    assert (left.raises, left.message) == ("WaitTimeout", told)
    family.end(third)
    assert [lease.job_id for lease in family.go_on()] == [ids[3]], "the list goes on meanwhile"
    family.end(again)
    family.end(leases[ids[1]])
    assert family.go_on(1) == []
    assert sum(family.workflow(parent.job_id).jobs.values()) == 1 + 4


def test_gathers_that_wait_for_cancelled_jobs_to_end_hold_up_no_others(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathers_part, "AT_ONCE", 3)
    for number in range(4):
        parent = family.root(f"p{number}")
        (child,) = family.gather(parent, 1, parks=False)
        family.lease_of(child)
        family.fail(parent)
        assert family.job(child).cancel_requested
        family.desk.replay(f"job_a{number}", parent.job_id)
        family.gather(family.lease_of(f"job_a{number}"), 1)
    last = family.root("z")
    (child,) = family.gather(last, 1)
    assert family.lease_of(child, 1).job_id == child


def test_the_outcome_of_a_gathered_job_stays_what_it_was_as_it_ended(family: Family) -> None:
    parent = family.root()
    first, second = family.gather(parent, 2, tolerated=2)
    leases = {lease.job_id: lease for lease in family.go_on()}
    family.end(leases[first], "failed", error="no")
    family.end(leases[second])
    again = family.lease_of(parent.job_id)
    assert [each[0] for each in family.outcomes(again, [first, second])] == ["failed", "succeeded"]
    family.desk.replay("job_again", first)
    family.end(family.lease_of("job_again"))
    assert [each[0] for each in family.outcomes(again, [first, second])] == ["failed", "succeeded"]


def test_a_job_that_lives_again_is_below_its_parent_and_counted_again(family: Family) -> None:
    """No worker handled its type for a while."""
    family.desk.deploy(unhandled_ms=60_000)
    family.boot()
    parent = family.root()
    family.seal(parent, 2, tolerated=2)
    family.add(parent, 0, [spec("gather[all]/0", "late"), spec("gather[all]/1")], "gather[all]")
    child = child_id(parent, "gather[all]/0")
    family.park(parent, gather_wait())
    family.worker.stay(250)
    assert family.job(child).status == "dead"
    family.boot("draft_reply", "refund", "late")
    leases = {lease.job_id: lease for _ in range(3) for lease in family.go_on(5)}
    family.park(leases[child], sleep(10 * DAY))
    family.desk.cancel(parent.job_id)
    family.go_on()
    assert family.job(child).status == "cancelled"
    family.end(leases[child_id(parent, "gather[all]/1")], "cancelled")
    family.go_on(1)
    assert family.leftovers() == []


def test_a_row_that_is_forgotten_and_made_anew_in_one_step_is_counted_once(
    family: Family,
) -> None:
    parent = family.root()
    family.enqueue(parent)
    task = family.desk.driver.task("dispatcher")
    table = processor(task)._table
    job = family.job(parent.job_id)
    table.put(job)
    table.forget(job)
    table.put(job)
    table.flush()
    value = task.stores["workflows"].get(workflow_key(job.tenant_id, job.job_id))
    assert WORKFLOW.decode(value or b"").kept == 2


def test_a_job_that_was_to_begin_later_leaves_no_timer_once_it_is_cancelled(
    family: Family,
) -> None:
    parent = family.root()
    child = family.enqueue(parent, delay_ms=300 * DAY * 1000)
    timers = family.desk.driver.store("scheduler", "timers")
    assert len(list(timers.range(b"t", b"u"))) == 1
    family.desk.cancel(child)
    assert family.job(child).status == "cancelled"
    assert list(timers.range(b"t", b"u")) == []


def test_a_child_is_a_draft_if_its_parents_type_became_one_meanwhile(family: Family) -> None:
    parent = family.root()
    types = {"draft_reply": JobType("draft_reply", draft=True)}
    family.desk.start_with(*ROUTES, job_types=types)
    family.boot()
    child = family.enqueue(family.lease_of(parent.job_id))
    assert (family.job(parent.job_id).draft, family.job(child).draft) == (False, True)


def test_parent_and_children_end_under_one_cap_of_one() -> None:
    family = Family(Limit("one", "tenant", "*", concurrency=1))
    parent = family.root()
    children = family.gather(parent, 3)
    for _ in range(3):
        (lease,) = family.go_on()
        assert lease.job_id in children
        family.end(lease)
    (again,) = family.go_on()
    family.end(again)
    assert family.job(parent.job_id).status == "succeeded"


def test_a_step_begins_no_more_jobs_than_a_transaction_has_room_for(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Any] = []
    begun: Counter[int] = Counter()
    count, large = 60, json.dumps("x" * 250_000)

    def counted(step: Any, parent: Any, asked: ChildSpec, gather: str) -> Any:
        steps.append(step)  # so that no other one has its id
        begun[id(step)] += len(asked.input)
        return make(step, parent, asked, gather)

    monkeypatch.setattr(gathers_part, "make", counted)
    parent = family.root()
    family.seal(parent, count, limit=count)
    with family.desk.held_back():
        for number in range(count):
            asked = spec(f"gather[all]/{number}", input_=large)
            family.add(parent, number, [asked], "gather[all]")
    family.desk.driver.advance(2)
    assert sum(begun.values()) == count * len(large)
    assert max(begun.values()) < 8_000_000


def test_records_do_not_grow_with_the_list() -> None:
    family = Family()
    parent = family.root()
    family.gather(parent, 5_000, limit=5_000)
    family.desk.driver.advance(10)
    sizes = {len(record.value or b"") for record in family.desk.driver.output("workflows")}
    rows = [r for r in family.desk.driver.output("jobs") if r.key == parent.job_id.encode()]
    assert max(sizes) - min(sizes) < 40
    assert max(len(row.value or b"") for row in rows) < 1_000
    assert sum(family.workflow(parent.job_id).jobs.values()) == 5_001
