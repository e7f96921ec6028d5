"""When a schedule fires: by a cron expression in a time zone, at an interval, or once.

A cron expression whose hour field begins with `*` is an interval on the wall clock: it goes on
through both passes of an hour that exists twice, and leaves out what does not exist. Any other one
has fixed times: each fires once, in the first pass, and one that the clock is set forward past
fires at the first moment after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from itertools import takewhile
from zoneinfo import ZoneInfo

from streams.schedules import time_zones
from streams.serde.records import Occurrence, ScheduleSpec


class WrongSchedule(ValueError):
    """A schedule cannot be: which field is wrong, and what to write instead."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message


_FIRST_SPAN_MS = 15 * 60_000
_LONGEST_FOLD_MS = 3 * 3_600_000
"""No clock is set back by more; Lord Howe's is set back by half an hour."""
_LAST_MS = 250_000_000_000_000
"""In the year 9892: what lies behind has no date."""


def shift_of(tenant_id: str, schedule_id: str, window_ms: int) -> int:
    """How much later than its times a schedule fires: stable, and within its window."""
    digest = blake2b(f"{tenant_id}\0{schedule_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % window_ms if window_ms else 0


@dataclass(frozen=True, slots=True)
class Timetable:
    """The times of a schedule, each of them `shift_ms` later than its definition says.

    `Occurrence.name` has the nominal local time and the fold, which are the same under other rules
    of the zone. Methods raise `WrongSchedule` for an unknown zone, or an expression without sense.
    """

    spec: ScheduleSpec
    shift_ms: int = 0

    def after(self, moment: int, behind: str = "") -> Iterator[Occurrence]:
        """The times after a moment (milliseconds), and after the one with this name."""
        spec = self.spec
        start = moment if spec.starts_at is None else max(moment, spec.starts_at - 1)
        for found in self._unshifted(max(start - self.shift_ms, 0), behind):
            at = found.at + self.shift_ms
            if at > (_LAST_MS if spec.ends_at is None else spec.ends_at):
                return
            if at > start:
                yield Occurrence(at, found.name)

    def latest(self, since: int, until: int, most: int, behind: str = "") -> list[Occurrence]:
        """The last few times after `since` that are not after `until`, oldest first.

        It goes back from the end in growing spans, so it costs little however long ago `since` is.
        """
        span = _FIRST_SPAN_MS
        while True:
            start = max(since, until - span)
            found = list(takewhile(lambda each: each.at <= until, self.after(start, behind)))
            if len(found) >= most or start == since:
                return found[-most:]
            span *= 4

    def _unshifted(self, moment: int, behind: str) -> Iterator[Occurrence]:
        if self.spec.cron is not None:
            return _cron(self.spec.cron, self.spec.tz, moment, behind)
        if self.spec.every_ms is not None:
            return _interval(self.spec.every_ms, self.spec.starts_at or 0, moment)
        at = self.spec.at or 0
        return iter([Occurrence(at, str(at))] if at > moment else [])


def is_interval(cron: str) -> bool:
    """Whether a cron expression is an interval on the wall clock."""
    return cron.split()[1].startswith("*")


def _interval(every: int, anchor: int, moment: int) -> Iterator[Occurrence]:
    if every < 1:
        raise WrongSchedule("every_seconds", f"{every} ms is no interval; set 1 ms or more")
    at = anchor + ((moment - anchor) // every + 1) * every
    while True:
        yield Occurrence(at, str(at))
        at += every


def _cron(cron: str, tz: str, moment: int, behind: str) -> Iterator[Occurrence]:
    try:
        rules = time_zones.zone(tz)
    except LookupError as error:
        raise WrongSchedule("tz", str(error)) from None
    if moment > _LAST_MS:
        return iter(())
    if is_interval(cron):
        return _on_the_wall(cron, rules, moment)
    return _fixed(cron, rules, moment, behind)


def _fixed(cron: str, rules: ZoneInfo, moment: int, behind: str) -> Iterator[Occurrence]:
    last = moment
    for shown in _shown(cron, time_zones.wall(moment, rules)):
        name = _name(shown, 0)
        found = time_zones.moments(shown, rules)
        at = found[0] if found else time_zones.first_after(shown, rules)
        if at > last and name > behind:  # several in an hour that does not exist are one
            last = at
            yield Occurrence(at, name)


def _on_the_wall(cron: str, rules: ZoneInfo, moment: int) -> Iterator[Occurrence]:
    """Every moment at which the wall clock shows a matching time."""
    again: list[Occurrence] = []
    for shown in _shown(cron, time_zones.wall(_before_fold(moment, rules), rules)):
        found = time_zones.moments(shown, rules)
        if found and len(found) == 1:
            yield from again
            again = []
        for fold, at in enumerate(found):
            if at > moment:
                each = Occurrence(at, _name(shown, fold))
                if fold:
                    again.append(each)
                else:
                    yield each
    yield from again


def _before_fold(moment: int, rules: ZoneInfo) -> int:
    """The moment, or an earlier one if an hour that exists twice may be under way."""
    earlier = moment - _LONGEST_FOLD_MS
    near = (earlier, moment, moment + _LONGEST_FOLD_MS)
    ahead = {time_zones.wall(each, rules) - timedelta(milliseconds=each) for each in near}
    return moment if len(ahead) == 1 else earlier


def _shown(cron: str, behind: datetime) -> Iterator[datetime]:
    """The times of a calendar without zones that match, after one."""
    from cronsim import CronSim  # a process without such schedules does not load it

    try:
        return CronSim(cron, behind)
    except Exception as error:  # besides its own error it raises AssertionError for `fri#2/2`
        raise WrongSchedule("cron", f"{cron!r} cannot be read: {error}".rstrip(": ")) from None


def _name(shown: datetime, fold: int) -> str:
    return f"{shown.isoformat(timespec='minutes')}/{fold}"
