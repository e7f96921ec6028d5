"""A worker sends whatever it likes for its own run: its owner goes on, also later.

What a command leaves in the stores is read again by other steps: one that fails there would end the
process, and each that takes the partition over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.family import PAGE, Family, end_wait, spec
from support.waiter import sleep

from streams.dispatcher.checkpoints import steps_of
from streams.serde.codec import JOB
from streams.serde.records import (
    Checkpoint,
    Claim,
    Ended,
    Enqueue,
    Replay,
    StepResult,
    Wait,
    WaitGroup,
)
from streams.serde.sizes import MAX_JOB_BYTES
from streams.serde.step_ids import gathered_id, passed_id
from streams.topology.limits import Limit

LISTS = PAGE + 60
"""More jobs than one step begins."""


@pytest.fixture
def family() -> Family:
    return Family()


def goes_on(family: Family) -> None:
    """Check that time passes, and that other jobs are leased."""
    family.desk.driver.advance(1)
    assert family.root("honest").type == "draft_reply"


def test_a_list_of_jobs_with_a_digest_of_another_length_is_refused(family: Family) -> None:
    """Later steps, which no command causes, would read it as something else."""
    parent, id_ = family.root(), "gather[all]"
    family.seal(parent, LISTS, limit=LISTS)
    specs = [spec(gathered_id(id_, number, None)) for number in range(LISTS)]
    specs[PAGE + 50] = replace(specs[0], digest=b"short")
    family.add(parent, 0, specs[:PAGE], id_)
    family.add(parent, PAGE, specs[PAGE:], id_)
    assert family.desk.refusals() == ["bad_digest"]
    goes_on(family)


@pytest.mark.parametrize(
    "forged",
    [
        StepResult("c", "child", value="1"),
        StepResult("c", "child"),
        StepResult("!effect[mail%2Fx]", "approval", value="{}"),
        StepResult("nap", "time", value="null"),
    ],
    ids=lambda forged: f"{forged.kind} {forged.value}",
)
def test_what_the_dispatcher_leaves_is_left_by_no_worker(
    family: Family, forged: StepResult
) -> None:
    """A person's replay reads it, and a command of a person is no worker's fault."""
    parent = family.root()
    family.desk.command(Checkpoint(parent.run_id, forged), parent.job_id, parent.epoch)
    assert family.desk.refusals() == ["forged_result"]
    family.end(parent, "failed", error="no")
    family.desk.replay("job_again", parent.job_id)
    assert family.job("job_again").replay_of == parent.job_id
    goes_on(family)


@pytest.mark.parametrize("forged", [passed_id("nap"), f"nap!{b'nap'.hex()}", "b/nap!"])
def test_how_far_a_wait_had_got_is_said_by_no_worker(family: Family, forged: str) -> None:
    parent = family.root()
    note = StepResult(forged, "step", value="[]")
    family.desk.command(Checkpoint(parent.run_id, note), parent.job_id, parent.epoch)
    family.park(parent, Wait(forged, "time", 0, b"d", group=0, timeout_ms=1))
    assert family.desk.refusals() == ["forged_result"] * 2
    goes_on(family)


def test_an_end_of_a_child_a_mark_and_a_heartbeat_are_no_notes(family: Family) -> None:
    parent = family.root()
    for id_, kind in (("!new", "patch"), ("b/!beef", "patch"), ("!!heartbeat", "heartbeat")):
        left = StepResult(id_, kind, value="true")
        family.desk.command(Checkpoint(parent.run_id, left), parent.job_id, parent.epoch)
    family.park(parent, Wait("c!end", "time", 0, b"d", group=0, timeout_ms=60_000))
    assert (family.desk.refusals(), family.job(parent.job_id).status) == ([], "waiting")


def test_a_call_for_a_job_leaves_a_job_alone(family: Family) -> None:
    """What an event left gives the right to read the event's body."""
    parent = family.root()
    left = StepResult("c", "event", 0, b"c", value="{}")
    body = Enqueue("clm", parent.run_id, left, spec("c"))
    family.desk.command(body, parent.job_id, parent.epoch)
    assert family.desk.refusals() == ["forged_result"]


@pytest.mark.parametrize(("number", "groups"), [(101, 1), (100, 30)], ids=["waits", "groups"])
def test_a_run_parks_for_no_more_waits_than_are_opened_at_once(
    family: Family, number: int, groups: int
) -> None:
    """They take a time that grows with the square of their number, or faster."""
    parent = family.root()
    all_ = tuple(map(WaitGroup, range(groups)))
    family.park(parent, *(sleep(60, f"w{n}").in_groups(all_) for n in range(number)))
    assert family.desk.refusals() == ["too_many_waits"]
    assert family.job(parent.job_id).status == "running"


def test_a_wait_for_a_job_of_another_tenant_tells_nothing_of_it(family: Family) -> None:
    """Neither that it exists, nor which replay took its place."""
    desk, parent = family.desk, family.root()
    desk.submit("job_theirs", tenant="globex")
    theirs = family.lease_of("job_theirs")
    ended = Ended(theirs.run_id, "review", None, "who knows", None, None)
    desk.command(replace(ended, diverged="step"), "job_theirs", theirs.epoch)
    replay = Replay("job_theirs", "vendor mended", False, "ops")
    desk.command(replay, "job_secret", tenant="globex")
    assert desk.job("job_theirs").replayed_as == "job_secret"
    family.park(parent, end_wait("a", "job_theirs"))
    (left,) = family.lease_of(parent.job_id).steps
    told = "no job job_theirs of this tenant: it is not made yet, or forgotten"
    assert left.message == f"a!end: {told}"


@pytest.mark.parametrize("part", ["digest", "failed_before", "approval_id", "after_event", "since"])
def test_a_wait_has_no_part_that_fills_the_record_of_its_job(family: Family, part: str) -> None:
    parent = family.root()
    long: Any = b"d" * 300 if part in ("digest", "failed_before") else "1" * 300
    family.park(parent, replace(sleep(60), **{part: long}))
    assert family.desk.refusals() == ["bad_wait"]


def test_many_small_commands_leave_room_for_what_the_dispatcher_adds_to_a_job() -> None:
    """No command causes what the end of a lease adds: a record too large ends the process then."""
    family = Family(Limit("calls", "tool", "*", concurrency=10_000, shared=False))
    parent = family.root()
    for number in range(250):
        claim_id = f"{number}" + "x" * 7_000
        body = Claim(claim_id, parent.run_id, f"mail/{number}", b"d" * 32, 0)
        family.desk.command(body, parent.job_id, parent.epoch)
    assert family.desk.refusals()[0] == "job_too_large"
    assert len(JOB.encode(family.job(parent.job_id))) <= MAX_JOB_BYTES
    family.desk.cancel(parent.job_id)
    assert family.job(parent.job_id).cancel_requested
    family.desk.driver.advance(60)
    goes_on(family)


def test_no_more_of_what_a_job_has_left_is_read_than_a_lease_could_hold(family: Family) -> None:
    """Otherwise it would fill the memory of each owner that leases the job again."""
    parent = family.root()
    for number in range(8):
        left = StepResult(f"s{number}", "step", value='"' + "x" * 900_000 + '"')
        family.desk.command(Checkpoint(parent.run_id, left), parent.job_id, parent.epoch)
    checkpoints = family.desk.driver.store("dispatcher", "checkpoints")
    assert [each.id for each in steps_of(checkpoints, family.job(parent.job_id))] == [
        f"s{number}" for number in range(5)
    ]
    family.end(parent, "released")
    family.go_on()
    assert family.job(parent.job_id).end_reason == "lease_too_large"
    goes_on(family)
