"""Dedup's process dies under load: nothing lost, nothing twice, and it goes on (G1, G6, G8)."""

from __future__ import annotations

import signal

import pytest
from support.dedup_under_load import DedupUnderLoad
from support.fault_points import STEPS

pytestmark = [pytest.mark.broker, pytest.mark.fault]

WITHOUT_DISK = frozenset({"after_commit", "after_write"})


def die_at(dedup: DedupUnderLoad, step: str, *, wipe: bool) -> None:
    """Kill the running process there and start the next."""
    landed = dedup.processes[-1].fault(step)
    if wipe:
        dedup.wipe()
    dedup.start()
    kept = "state wiped" if wipe else "state kept"
    dedup.await_recovery(f"SIGKILL {landed}, {kept}")


def die_restoring(dedup: DedupUnderLoad) -> None:
    """Wipe the state, kill who rebuilds it when a part is done; the next does the rest."""
    dedup.processes[-1].kill()
    dedup.wipe()
    in_small_chunks = {"HOLD_RESTORE": str(dedup.folder / "nowhere")}
    restoring = dedup.start(**in_small_chunks)
    restoring.fault("restoring", signal.SIGSTOP)
    restoring.points.arm("restoring", signal.SIGKILL)
    restoring.signal(signal.SIGCONT)
    landed = restoring.await_fault("restoring", signal.SIGKILL)
    successor = dedup.start()
    dedup.await_recovery(f"SIGKILL {landed}")
    whole, rest = (each.said("assigned")["to_restore"] for each in (restoring, successor))
    assert 0 < rest < whole, "it did not go on where the other was killed"


def die_anywhere(dedup: DedupUnderLoad, times: int) -> None:
    for number in range(times):
        pause(dedup)
        landed = dedup.processes[-1].kill_in_flight()
        dedup.start()
        dedup.await_recovery(f"SIGKILL {number} {landed}")


def pause(dedup: DedupUnderLoad) -> None:
    """For a moment that the seed chooses: which step the kill meets is left to chance."""
    dedup.flood.wait(dedup.random.uniform(0, 0.2))


def test_killed_at_each_step_and_anywhere(dedup: DedupUnderLoad) -> None:
    dedup.start()
    dedup.await_recovery("start")
    for step in STEPS:
        die_at(dedup, step, wipe=step in WITHOUT_DISK)
    die_restoring(dedup)
    die_anywhere(dedup, 5)
    assert dedup.verdict() == []


@pytest.mark.chaos
@pytest.mark.parametrize("wipe", [False, True], ids=["kept", "wiped"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_one_step(dedup: DedupUnderLoad, step: str, wipe: bool) -> None:
    dedup.start()
    dedup.await_recovery("start")
    die_at(dedup, step, wipe=wipe)
    assert dedup.verdict() == []


@pytest.mark.chaos
def test_killed_fifty_times(dedup: DedupUnderLoad) -> None:
    dedup.start()
    dedup.await_recovery("start")
    die_anywhere(dedup, 50)
    assert dedup.verdict() == []
