"""What makes a schedule valid, for the API, for applications and for the dispatcher."""

from __future__ import annotations

import re
from dataclasses import replace
from math import isfinite
from typing import get_args

from streams.schedules.timetable import Timetable, WrongSchedule
from streams.serde.records import Overlap, ScheduleSpec

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
GRACE_SECONDS = 60.0
LATEST, SKIP = "latest", "skip"
OVERLAPS: tuple[Overlap, ...] = get_args(Overlap)
MOST_MISSED = 100
_DEFAULT_MOST = 10
_ALL = re.compile(r"all(?:\((\d{1,3})\))?")
_LONGEST_CRON = 250
_LONGEST_SECONDS = 366 * 86_400
_LONGEST_WINDOW_SECONDS = 86_400


def definition(
    job: str,
    input_: str,
    *,
    cron: str | None = None,
    every_seconds: float | None = None,
    at: int | None = None,
    tz: str = "UTC",
    missed: str = LATEST,
    grace_seconds: float = GRACE_SECONDS,
    overlap: str = "allow",
    window_seconds: float = 0,
    starts_at: int | None = None,
    ends_at: int | None = None,
) -> ScheduleSpec:
    """A checked definition; `input_` is JSON text, moments are in milliseconds.

    Raises:
        WrongSchedule: a field is wrong.
    """
    if overlap not in OVERLAPS:
        raise WrongSchedule("overlap", f"{overlap!r} is not one of {', '.join(OVERLAPS)}")
    spec = ScheduleSpec(
        job,
        input_,
        None if cron is None else " ".join(cron.split()),
        None if every_seconds is None else _ms("every_seconds", every_seconds, 1, _LONGEST_SECONDS),
        at,
        tz,
        missed,
        _ms("grace_seconds", grace_seconds, 0, _LONGEST_SECONDS),
        overlap,
        _ms("window_seconds", window_seconds, 0, _LONGEST_WINDOW_SECONDS),
        starts_at,
        ends_at,
    )
    check(spec)
    return spec


def check(spec: ScheduleSpec) -> None:
    """Check what another process may have made.

    Raises:
        WrongSchedule: a field is wrong.
    """
    times = {"cron": spec.cron, "every_seconds": spec.every_ms, "at": spec.at}
    given = [name for name, value in times.items() if value is not None]
    if len(given) != 1:
        raise WrongSchedule("cron", "give exactly one of cron, every_seconds and at")
    if spec.every_ms is not None and spec.every_ms < 1_000:
        raise WrongSchedule("every_seconds", "must be 1 or more")
    if spec.window_ms < 0 or spec.grace_ms < 0:
        field = "window_seconds" if spec.window_ms < 0 else "grace_seconds"
        raise WrongSchedule(field, "must not be negative")
    if spec.overlap not in OVERLAPS:
        raise WrongSchedule("overlap", f"{spec.overlap!r} is not one of {', '.join(OVERLAPS)}")
    most_missed(spec.missed)
    if None not in (spec.starts_at, spec.ends_at) and (spec.starts_at or 0) > (spec.ends_at or 0):
        raise WrongSchedule("until", "must not be before from")
    _check_times(spec)


def most_missed(missed: str) -> int:
    """How many times that were missed, or have come together, are made up for at most.

    Raises:
        WrongSchedule: there is no such policy.
    """
    if missed in (LATEST, SKIP):
        return 1
    found = _ALL.fullmatch(missed)
    most = int(found[1] or _DEFAULT_MOST) if found else 0
    if not 1 <= most <= MOST_MISSED:
        what = f"{missed!r} is not latest, skip, all or all(N) with N from 1 to {MOST_MISSED}"
        raise WrongSchedule("missed", what)
    return most


def require_future(spec: ScheduleSpec, now: int) -> None:
    """Check that a schedule has a time left.

    Raises:
        WrongSchedule: it would never fire.
    """
    if next(Timetable(spec).after(now), None) is None:
        field = "at" if spec.at is not None else "until" if spec.ends_at is not None else "cron"
        raise WrongSchedule(field, "the schedule would never fire: none of its times is ahead")


def _check_times(spec: ScheduleSpec) -> None:
    if spec.cron is not None and len(spec.cron) > _LONGEST_CRON:
        raise WrongSchedule("cron", f"has more than {_LONGEST_CRON} characters")
    if spec.cron is not None and len(spec.cron.split()) != 5:
        five = "minute, hour, day of the month, month and day of the week, as `0 9 * * mon-fri`"
        raise WrongSchedule("cron", f"{spec.cron!r} has not five fields: {five}")
    ever = next(Timetable(replace(spec, starts_at=None, ends_at=None)).after(0), None)
    if ever is None:
        field = "cron" if spec.at is None else "at"
        raise WrongSchedule(field, "the schedule would never fire: there is no such day")


def _ms(field: str, seconds: float, least: int, most: int) -> int:
    if not isinstance(seconds, int | float) or not isfinite(seconds):
        raise WrongSchedule(field, f"{seconds!r} is no number of seconds")
    if not least <= seconds <= most:
        raise WrongSchedule(field, f"must be from {least} to {most} seconds")
    return round(seconds * 1000)
