"""What makes a schedule valid, and what is said of one that is not."""

from __future__ import annotations

from typing import Any

import pytest
from support.scheduling import moment, spec

from streams.schedules.definition import most_missed, require_future
from streams.schedules.timetable import WrongSchedule

WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"cron": "0 9 * *"}, "cron", "five fields"),
    ({"cron": "0 0 9 * * *"}, "cron", "five fields"),
    ({"cron": "61 9 * * *"}, "cron", "cannot be read"),
    ({"cron": "0 9 31 2 *"}, "cron", ""),
    ({"cron": "@daily"}, "cron", "five fields"),
    ({"cron": "0 9 * * fri#2/2"}, "cron", "cannot be read"),
    ({"cron": f"{'1,' * 200}1 9 * * *"}, "cron", "more than 250"),
    ({"cron": "0 9 * * *", "tz": "Europe/Bonn"}, "tz", "Europe/Bonn"),
    ({"cron": "0 9 * * *", "every_seconds": 60}, "cron", "exactly one"),
    ({"every_seconds": 0.5}, "every_seconds", "from 1"),
    ({"every_seconds": float("nan")}, "every_seconds", "no number"),
    ({"every_seconds": 60, "missed": "all(0)"}, "missed", "latest, skip, all"),
    ({"every_seconds": 60, "missed": "all(101)"}, "missed", "from 1 to 100"),
    ({"every_seconds": 60, "missed": "some"}, "missed", "latest, skip"),
    ({"every_seconds": 60, "overlap": "replace"}, "overlap", "queue_one"),
    ({"every_seconds": 60, "grace_seconds": -1}, "grace_seconds", "from 0"),
    ({"every_seconds": 60, "window_seconds": 90_000}, "window_seconds", "86400"),
    ({"every_seconds": 60, "starts_at": 2_000, "ends_at": 1_000}, "until", "before from"),
]


@pytest.mark.parametrize(("fields", "field", "told"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_field_is_named(fields: dict[str, Any], field: str, told: str) -> None:
    with pytest.raises(WrongSchedule) as raised:
        spec(**fields)
    assert raised.value.field == field
    assert told in raised.value.message


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"at": moment("2026-01-01T00:00+00:00")}, "at"),
        ({"cron": "0 9 * * *", "ends_at": moment("2026-01-01T00:00+00:00")}, "until"),
        ({"every_seconds": 3_600, "ends_at": moment("2026-01-02T00:00+00:00")}, "until"),
    ],
)
def test_a_schedule_without_a_time_ahead_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(WrongSchedule, match="never fire") as raised:
        require_future(spec(**fields), moment("2026-01-02T00:00+00:00"))
    assert raised.value.field == field


def test_policies_for_missed_times() -> None:
    found = [most_missed(each) for each in ("latest", "skip", "all", "all(7)", "all(100)")]
    assert found == [1, 1, 10, 7, 100]


def test_spaces_do_not_make_another_schedule() -> None:
    assert spec(cron=" 0  9 * * mon-fri") == spec(cron="0 9 * * mon-fri")
