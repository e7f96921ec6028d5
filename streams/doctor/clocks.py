"""Judges clocks: the brokers' decide everything that lasts; this machine's only helps people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streams.doctor.clock_view import CLOCK, ClocksSeen, KeptTime
from streams.doctor.finding import Check, Finding
from streams.kafka.offsets import Place
from streams.runtime.broker_clock import STEP_MS

HERE = Check("clocks", "this machine")
BROKER = Check("clocks", "broker")
AMONG = Check("clocks", "brokers")

_FRESH_MS = 30_000
"""A running stage asks for the time every 10 s."""
_SYNC = "mend the time service of this machine (chronyc tracking, timedatectl)"
_SYNC_BROKERS = "mend the time service of that broker; see docs/processes.md, Clocks"


def this_machine(seen: ClocksSeen) -> Iterator[Finding]:
    """A wrong clock here harms no stage, but signatures, tokens and certificates look at it."""
    newest = seen.appended.get(CLOCK)
    if newest is None:
        yield HERE.skipped("no stage has asked these brokers for the time lately", _START)
    elif seen.kept:
        yield _beside_kept(seen.wall, _narrowest(seen.kept))
    else:
        yield _beside_record(seen.wall - newest)


def _narrowest(kept: Mapping[str, KeptTime]) -> KeptTime:
    return min(kept.values(), key=lambda each: each.latest - each.earliest)


def _beside_kept(wall: float, kept: KeptTime) -> Finding:
    """What the stages of this machine know bounds the broker's time on both sides."""
    ahead = max(0.0, wall - kept.latest) - max(0.0, kept.earliest - wall)
    if abs(ahead) > STEP_MS:
        return _wrong(ahead)
    return HERE.ok(
        f"its clock is {'within' if abs(ahead) < 1000 else 'about'} "
        f"{max(1.0, abs(ahead) / 1000):.0f} s of the broker's"
    )


def _beside_record(age_ms: float) -> Finding:
    """The newest record is no later than the broker's present time, which bounds one side.

    It is later if the broker's clock was ahead then, and was mended since.
    """
    if age_ms < -STEP_MS:
        return HERE.warn(
            f"this machine's clock is {-age_ms / 1000:.0f} s behind the broker's, or the broker's "
            "was ahead when it last told the time",
            f"{_SYNC}; if it is right, mend that of the broker",
        )
    if age_ms > _FRESH_MS:
        return HERE.skipped(
            f"the last time of the broker that is known is {age_ms / 1000:.0f} s ago: no stage "
            "runs, or this machine's clock is ahead",
            _START,
        )
    return HERE.ok(f"its clock is at most {max(1.0, age_ms / 1000):.0f} s ahead of the broker's")


def _wrong(ahead_ms: float) -> Finding:
    way = "ahead of" if ahead_ms > 0 else "behind"
    return HERE.warn(
        f"this machine's clock is {abs(ahead_ms) / 1000:.0f} s {way} the broker's: signatures and "
        "certificates may be refused here, though stages decide nothing by it",
        _SYNC,
    )


_START = "start a stage, then look again"


def broker(seen: ClocksSeen) -> Iterator[Finding]:
    """Whether the broker's clock moved since the stages of this machine learned it.

    A record is never appended later than now, so an append time ahead of an estimate is a step.
    """
    newest = seen.appended.get(CLOCK)
    if newest is None or not seen.kept:
        yield BROKER.skipped(
            "no stage of this machine has kept the broker's time to compare with", _START
        )
        return
    # Another stage may not have run since a clock was mended.
    name, kept = min(seen.kept.items(), key=lambda each: each[1].age_ms)
    if newest - kept.latest > STEP_MS:
        yield _moved(name, (newest - kept.latest) / 1000, kept.age_ms)
    else:
        yield BROKER.ok("it has not moved ahead since the stages of this machine read it")


def _moved(name: str, seconds: float, age_ms: float) -> Finding:
    """A stage that runs has believed the time since, so the record is from before a repair."""
    if age_ms < _FRESH_MS:
        return BROKER.warn(
            f"`clock` has a time {seconds:.1f} s ahead of the one that {name} read "
            f"{age_ms / 1000:.0f} s ago: the broker's clock was ahead, or moved this moment",
            "look again in a minute; while that stage runs, there is nothing to do",
        )
    return BROKER.fail(
        f"the broker's clock is or was ahead by {seconds:.1f} s or more of the time that {name} "
        "read; while it is, that stage does not start",
        "see docs/troubleshooting.md, The broker's clock moved",
    )


def among(seen: ClocksSeen, leaders: Mapping[Place, int]) -> Iterator[Finding]:
    """Brokers that appended records in the future; a broker that is late cannot be told."""
    now = max([seen.wall, *(each.latest for each in seen.kept.values())])
    ahead: dict[int, float] = {}
    for place, at in seen.appended.items():
        if at - now > STEP_MS and place in leaders:
            ahead[leaders[place]] = max(ahead.get(leaders[place], 0.0), at - now)
    verdict = (
        AMONG.fail if seen.kept else AMONG.warn
    )  # else this machine's clock may be the wrong one
    for id_, ms in sorted(ahead.items()):
        yield verdict(
            f"broker {id_} leads a partition with a record {ms / 1000:.1f} s in the future: its "
            "clock is ahead, or was",
            _SYNC_BROKERS,
        )
    if not ahead and (known := {leaders[p] for p in seen.appended if p in leaders}):
        count = len(known)
        yield AMONG.ok(f"no record of {count} broker{'s' * (count > 1)} is in the future")
    elif not ahead:
        yield AMONG.skipped("no record that carries a broker's time was appended yet")
