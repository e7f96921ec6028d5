"""When a schedule fires: leap days, clocks that are set, intervals, windows, bounds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scheduling import moment, spec

from streams.schedules import time_zones
from streams.schedules.timetable import Timetable, WrongSchedule, shift_of

ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "UTC", "Africa/Cairo")
CRONS = ("30 2 * * *", "*/10 * * * *", "0 */2 * * *", "15,45 1-3 * * *", "0 0 * * *", "5 9 29 2 *")


def times(start: str, count: int, **fields: Any) -> list[str]:
    """The local times, with their offsets, at which a schedule fires after a moment."""
    table = Timetable(spec(**fields))
    rules = time_zones.zone(fields.get("tz", "UTC"))
    found = islice(table.after(moment(start)), count)
    local = (datetime.fromtimestamp(each.at / 1000, rules) for each in found)
    return [each.isoformat(timespec="minutes") for each in local]


def test_on_weekdays_at_nine_in_berlin() -> None:
    assert times("2026-11-27T12:00+00:00", 2, cron="0 9 * * mon-fri", tz="Europe/Berlin") == [
        "2026-11-30T09:00+01:00",
        "2026-12-01T09:00+01:00",
    ]


def test_a_leap_day_comes_every_four_years_but_for_2100() -> None:
    found = times("2088-03-01T00:00+00:00", 3, cron="0 12 29 2 *")
    assert [each[:10] for each in found] == ["2092-02-29", "2096-02-29", "2104-02-29"]


def test_berlin_in_spring_a_time_that_does_not_exist_is_the_first_one_after() -> None:
    found = times("2026-03-28T00:00+00:00", 3, cron="30 2 * * *", tz="Europe/Berlin")
    assert found == [
        "2026-03-28T02:30+01:00",
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]


def test_several_times_in_an_hour_that_does_not_exist_are_one() -> None:
    found = times("2026-03-28T23:00+00:00", 3, cron="15,45 2,3 * * *", tz="Europe/Berlin")
    assert [each[11:16] for each in found] == ["03:00", "03:15", "03:45"]


def test_berlin_in_autumn_fixed_times_come_once_and_intervals_go_on() -> None:
    start, tz = "2026-10-24T23:00+00:00", "Europe/Berlin"
    assert times(start, 2, cron="30 2 * * *", tz=tz) == [
        "2026-10-25T02:30+02:00",
        "2026-10-26T02:30+01:00",
    ]
    assert times(start, 4, cron="30 * * * *", tz=tz) == [
        "2026-10-25T01:30+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:30+01:00",
    ]


def test_an_interval_on_the_clock_leaves_out_what_does_not_exist() -> None:
    found = times("2026-03-29T00:10+00:00", 4, cron="*/20 * * * *", tz="Europe/Berlin")
    assert [each[11:16] for each in found] == ["01:20", "01:40", "03:00", "03:20"]


def test_lord_howe_sets_its_clock_by_half_an_hour() -> None:
    tz = "Australia/Lord_Howe"
    spring = times("2026-10-03T14:30+00:00", 3, cron="15 2 * * *", tz=tz)
    assert spring[0] == "2026-10-04T02:30+11:00"
    assert spring[1] == "2026-10-05T02:15+11:00"
    assert [t[11:16] for t in times("2026-10-03T14:59+00:00", 4, cron="*/20 * * * *", tz=tz)] == [
        "01:40",
        "02:40",
        "03:00",
        "03:20",
    ]
    autumn = times("2026-04-04T14:00+00:00", 2, cron="45 1 * * *", tz=tz)
    assert autumn == ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"]
    assert times("2026-04-04T14:20+00:00", 5, cron="*/15 * * * *", tz=tz) == [
        "2026-04-05T01:30+11:00",
        "2026-04-05T01:45+11:00",
        "2026-04-05T01:30+10:30",
        "2026-04-05T01:45+10:30",
        "2026-04-05T02:00+10:30",
    ]


def test_the_second_pass_of_an_hour_goes_on_where_it_stands() -> None:
    inside = "2026-10-25T01:31+00:00"  # 02:31 for the second time
    found = times(inside, 2, cron="*/15 * * * *", tz="Europe/Berlin")
    assert found == ["2026-10-25T02:45+01:00", "2026-10-25T03:00+01:00"]


def test_a_day_that_a_zone_left_out_is_the_next_one() -> None:
    found = times("2011-12-29T12:00+00:00", 3, cron="0 9 * * *", tz="Pacific/Apia")
    assert [each[:16] for each in found] == [
        "2011-12-29T09:00",
        "2011-12-31T00:00",
        "2011-12-31T09:00",
    ]


def test_an_interval_keeps_its_phase_whenever_it_is_asked() -> None:
    assert times("2026-01-01T00:00:30+00:00", 2, every_seconds=90 * 60) == [
        "2026-01-01T01:30+00:00",
        "2026-01-01T03:00+00:00",
    ]
    start = moment("2026-01-01T00:10+00:00")
    found = times("2026-01-01T05:00+00:00", 2, every_seconds=3_600, starts_at=start)
    assert found == ["2026-01-01T05:10+00:00", "2026-01-01T06:10+00:00"]


def test_bounds_count() -> None:
    first, last = moment("2026-01-02T09:00+00:00"), moment("2026-01-03T09:00+00:00")
    found = times("2026-01-01T00:00+00:00", 9, cron="0 9 * * *", starts_at=first, ends_at=last)
    assert [each[:10] for each in found] == ["2026-01-02", "2026-01-03"]


def test_a_one_shot_fires_once() -> None:
    at = moment("2026-01-02T09:00+00:00")
    assert len(times("2026-01-01T00:00+00:00", 9, at=at)) == 1
    assert times("2026-01-02T09:00+00:00", 9, at=at) == []


def test_a_window_shifts_each_time_by_the_same_part_of_it() -> None:
    shifts = {shift_of("acme", f"s{number}", 600_000) for number in range(100)}
    assert shift_of("acme", "s1", 600_000) == shift_of("acme", "s1", 600_000)
    assert len(shifts) > 90
    assert all(0 <= shift < 600_000 for shift in shifts)
    table = Timetable(spec(cron="0 9 * * *"), 90_000)
    found = [each.at for each in islice(table.after(moment("2026-01-01T09:01+00:00")), 2)]
    expected = ["2026-01-01T09:01:30+00:00", "2026-01-02T09:01:30+00:00"]
    assert found == [moment(each) for each in expected]


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("cron", CRONS)
@settings(deadline=None, max_examples=12)
@given(start=st.integers(1_700_000_000_000, 1_900_000_000_000), most=st.integers(1, 12))
def test_times_rise_and_are_the_same_from_wherever_one_asks(
    cron: str, tz: str, start: int, most: int
) -> None:
    table = Timetable(spec(cron=cron, tz=tz))
    found = list(islice(table.after(start), 40))
    assert all(a.at < b.at for a, b in pairwise(found))
    assert len({each.name for each in found}) == len(found)
    middle = found[17]
    assert list(islice(table.after(middle.at, middle.name), 5)) == found[18:23]
    assert list(islice(table.after(middle.at - 1), 5)) == found[17:22]
    assert table.latest(start, found[30].at + 1, most) == found[31 - most : 31]


@pytest.mark.parametrize("tz", ["Europe/Berlin", "Australia/Lord_Howe"])
@settings(deadline=None, max_examples=8)
@given(day=st.integers(0, 3_000))
def test_an_interval_on_the_clock_is_every_moment_that_the_clock_shows(tz: str, day: int) -> None:
    start = moment("2020-01-01T00:00+00:00") + day * 86_400_000
    table, rules = Timetable(spec(cron="*/7 * * * *", tz=tz)), ZoneInfo(tz)
    found = [each.at for each in table.latest(start, start + 86_400_000, 1_000)]
    minutes = range(start + 60_000, start + 86_400_001, 60_000)
    shown = [at for at in minutes if datetime.fromtimestamp(at / 1000, rules).minute % 7 == 0]
    assert found == shown


@pytest.mark.parametrize("every", [0, -1])
def test_an_interval_that_goes_nowhere_is_wrong_and_not_looked_for_without_end(every: int) -> None:
    """No command lets one in, and a row that is damaged must not hold up its reader."""
    table = Timetable(replace(spec(), every_ms=every))
    with pytest.raises(WrongSchedule, match="is no interval"):
        next(table.after(0))


def test_the_rules_are_those_of_the_pinned_package() -> None:
    assert time_zones.version()[:2] == "20"
    noon = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert noon.astimezone(time_zones.zone("Europe/Berlin")).hour == 14
    for name in ("Mars/Base", "../etc/passwd", "", "Europe"):
        with pytest.raises(LookupError, match="no time zone"):
            time_zones.zone(name)
