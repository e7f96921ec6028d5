"""Several processes of dedup: frozen ones that wake up, twins of one name, joins and leaves."""

from __future__ import annotations

import signal

import pytest
from support.conditions import eventually
from support.dedup_under_load import DedupUnderLoad
from support.fault_points import STEPS
from support.faulty_process import FaultyProcess

pytestmark = [pytest.mark.broker, pytest.mark.fault]

FENCED = ("transaction aborted", "producer is replaced", "partitions lost")
QUICK_STEP = "before_commit"
FROZEN_SECONDS = 20.0
"""For longer than session and transaction last."""


@pytest.mark.parametrize(
    "step",
    [pytest.param(s, marks=() if s == QUICK_STEP else pytest.mark.chaos) for s in STEPS],
)
def test_a_zombie_is_fenced_and_does_no_harm(dedup: DedupUnderLoad, step: str) -> None:
    """Frozen for longer than session and transaction last, with a batch in flight."""
    zombie = dedup.start("0")
    dedup.await_recovery("start")
    landed = zombie.fault(step, signal.SIGSTOP)
    dedup.start("1")
    dedup.await_recovery(f"SIGSTOP {landed}, an heir")
    zombie.signal(signal.SIGCONT)
    eventually(lambda: any(line in zombie.lines for line in FENCED), what="the zombie is fenced")
    zombie.wait_for('"running"', times=2)
    dedup.await_recovery("SIGCONT, and its return to the group")
    assert dedup.verdict() == []


@pytest.mark.chaos
@pytest.mark.parametrize("step", ["received", "before_commit", "after_commit"])
def test_who_stands_still_alone_past_its_session_goes_on(dedup: DedupUnderLoad, step: str) -> None:
    """With nobody to take its place, and to be fenced by."""
    stage = dedup.start("0")
    dedup.await_recovery("start")
    landed = stage.fault(step, signal.SIGSTOP)
    dedup.flood.wait(FROZEN_SECONDS)
    stage.signal(signal.SIGCONT)
    eventually(lambda: any(line in stage.lines for line in FENCED), what="it was given up")
    dedup.await_recovery(f"SIGSTOP {landed} for {FROZEN_SECONDS:.0f} s")
    assert stage.alive
    assert dedup.verdict() == []


def test_of_two_processes_of_one_name_the_later_goes_on(dedup: DedupUnderLoad) -> None:
    first = dedup.start("0")
    dedup.await_recovery("start")
    print(f"SIGSTOP {first.freeze()}, until its twin is started")
    dedup.start("0", home="elsewhere")
    first.signal(signal.SIGCONT)
    assert first.exit_code() != 0
    assert "another process" in first.lines
    dedup.await_recovery("a second process of the name")
    assert dedup.verdict() == []


@pytest.mark.chaos
def test_of_twins_started_at_once_one_goes_on(dedup: DedupUnderLoad) -> None:
    twins = dedup.start("0"), dedup.start("0", home="elsewhere")
    eventually(lambda: not all(twin.alive for twin in twins), what="a twin ends")
    ended = next(twin for twin in twins if not twin.alive)
    assert "another process" in ended.lines
    dedup.await_recovery("twins")
    assert dedup.verdict() == []


def test_a_second_process_on_the_same_disk_leaves_the_first_alone(dedup: DedupUnderLoad) -> None:
    first = dedup.start("0")
    dedup.await_recovery("start")
    print(f"SIGSTOP {first.freeze()}, until its twin has ended")
    second = dedup.start("0")
    assert second.exit_code() != 0
    assert "in use by another process" in second.lines
    first.signal(signal.SIGCONT)
    dedup.await_recovery("a second process on the same disk")
    assert first.alive
    assert dedup.verdict() == []


@pytest.mark.chaos
@pytest.mark.parametrize("seconds", [10, 40])
def test_joins_and_leaves(dedup: DedupUnderLoad, seconds: int) -> None:
    """Every two seconds one of three instances is started, or ended in either way."""
    members: dict[str, FaultyProcess | None] = {name: dedup.start(name) for name in "012"}
    dedup.await_recovery("start")
    before = dedup.progress.committed()
    print(f"SIGKILL 1 {dedup.processes[1].kill_in_flight()}")
    members["1"] = None
    for _ in range(seconds // 2):
        dedup.flood.wait(2)
        name = dedup.random.choice("012")
        if member := members[name]:
            leave(dedup, name, member)
        members[name] = None if member else join(dedup, name)
    moved = sum(dedup.progress.committed().values()) - sum(before.values())
    print(f"{moved} records were committed in {seconds} s of joins and leaves")
    if not any(members.values()):
        dedup.start("0")
    dedup.await_recovery("joins and leaves")
    assert dedup.verdict() == []


def join(dedup: DedupUnderLoad, name: str) -> FaultyProcess:
    print(f"start {name}")
    return dedup.start(name)


def leave(dedup: DedupUnderLoad, name: str, member: FaultyProcess) -> None:
    """By SIGTERM or SIGKILL; it must have lived until then."""
    assert member.alive, member.lines
    if dedup.random.random() < 0.5:
        print(f"SIGKILL {name} {member.points.now}")
        member.kill()
    else:
        print(f"SIGTERM {name} {member.points.now}")
        assert member.stop() == 0
