"""What is wrong with clocks, seen without writing a record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.moved_clocks import BROKER_MS, Broker

from streams.doctor import clocks
from streams.doctor.clock_view import CLOCK, ClocksSeen, KeptTime, kept_memories, recalled

NOW = 1_750_000_000_000.0
KNOWN = KeptTime(NOW - 5, NOW + 5)
OTHER = ("events.received", 2)


def newest(ms: float = 0.0) -> dict[tuple[str, int], int]:
    return {CLOCK: int(NOW + ms)}


@pytest.mark.parametrize(
    ("wall_ms", "status", "says"),
    [
        (0, "ok", ""),
        (3_000, "ok", ""),
        (60_000, "warn", "60 s ahead of"),
        (-60_000, "warn", "60 s behind"),
    ],
)
def test_this_machines_clock_is_measured_by_what_its_stages_know(
    wall_ms: float, status: str, says: str
) -> None:
    (found,) = clocks.this_machine(ClocksSeen(NOW + wall_ms, {"dedup/0": KNOWN}, newest(-5_000)))
    assert found.status == status
    assert says in found.text


@pytest.mark.parametrize(
    ("wall_ms", "status"), [(0, "ok"), (9_000, "ok"), (-60_000, "warn"), (60_000, "skipped")]
)
def test_without_stages_here_the_newest_record_bounds_one_side(wall_ms: float, status: str) -> None:
    (found,) = clocks.this_machine(ClocksSeen(NOW + wall_ms, {}, newest()))
    assert found.status == status


def test_nothing_is_ok_where_nobody_asked_for_the_time() -> None:
    seen = ClocksSeen(NOW, {"dedup/0": KNOWN})  # which may be of another cluster
    found = [*clocks.this_machine(seen), *clocks.broker(seen), *clocks.among(seen, {})]
    assert [each.status for each in found] == ["skipped"] * 3


def stage_reads(broker: Broker, folder: Path) -> dict[str, Path]:
    """A stage's process reads the broker's time, and keeps it where the doctor finds it."""
    folder.mkdir(parents=True)
    (folder / "boot_id").write_text("this boot")
    broker.clock(memory=folder / "0" / "clock").read()
    return {"dedup/0": folder / "0" / "clock"}


def test_a_broker_whose_clock_moved_since_a_stage_read_it_is_told(tmp_path: Path) -> None:
    broker = Broker()
    files = stage_reads(broker, tmp_path / "dedup")
    known = recalled(files, broker.boot, tmp_path / "dedup" / "boot_id")
    assert abs(known["dedup/0"].latest - BROKER_MS) < 100
    seen = ClocksSeen(BROKER_MS, known, {CLOCK: BROKER_MS})
    assert [each.status for each in clocks.broker(seen)] == ["ok"]
    broker.ahead_ms += 3_600_000
    (found,) = clocks.broker(ClocksSeen(BROKER_MS, known, {CLOCK: int(broker.now)}))
    assert (found.status, "or moved this moment" in found.text) == ("warn", True)
    broker.passes(60_000)
    known = recalled(files, broker.boot, tmp_path / "dedup" / "boot_id")
    (found,) = clocks.broker(ClocksSeen(BROKER_MS, known, {CLOCK: int(broker.now)}))
    assert found.status == "fail"
    assert "ahead by 3600.0 s or more of the time that dedup/0 read" in found.text


def test_what_was_kept_long_ago_is_believed_less(tmp_path: Path) -> None:
    """Two clocks may part by 500 ppm: half a minute in 17 hours."""
    broker = Broker()
    files = stage_reads(broker, tmp_path / "dedup")
    broker.passes(17 * 3_600_000)
    known = recalled(files, broker.boot, tmp_path / "dedup" / "boot_id")["dedup/0"]
    assert known.earliest < broker.now - 30_000
    assert known.latest > broker.now + 30_000


def test_the_files_of_all_stages_of_a_directory_are_found(tmp_path: Path) -> None:
    for name in ("pipeline/0", "delivery/b"):
        (tmp_path / "state" / name).mkdir(parents=True)
        (tmp_path / "state" / name / "clock").touch()
    assert list(kept_memories(tmp_path)) == ["delivery/b", "pipeline/0"]
    assert recalled(kept_memories(tmp_path)) == {}  # empty files tell nothing


def test_a_broker_that_appends_in_the_future_is_named() -> None:
    seen = ClocksSeen(NOW, {"dedup/0": KNOWN}, {**newest(), OTHER: int(NOW + 90_000)})
    (found,) = clocks.among(seen, {CLOCK: 1, OTHER: 3})
    assert found.status == "fail"
    assert "broker 3" in found.text
    assert "90.0 s in the future" in found.text


def test_a_clock_that_was_ahead_and_was_mended_stops_no_stage() -> None:
    """Its record stays the newest for as long as it was ahead; a running stage knows better."""
    newest_ms = {CLOCK: int(NOW + 3_600_000)}
    kept = {"pipeline/0": KNOWN, "dedup/0": replace(KNOWN, age_ms=3_600_000.0)}
    (found,) = clocks.broker(ClocksSeen(NOW, kept, newest_ms))
    assert (found.status, "does not start" in found.text) == ("warn", False)
    (found,) = clocks.this_machine(ClocksSeen(NOW, {}, newest_ms))
    assert (found.status, "or the broker's was ahead" in found.text) == ("warn", True)


def test_a_machine_whose_clock_is_late_condemns_no_broker() -> None:
    (found,) = clocks.among(ClocksSeen(NOW - 60_000, {}, newest()), {CLOCK: 1})
    assert found.status == "warn"


def test_brokers_that_agree_are_ok() -> None:
    seen = ClocksSeen(NOW, {}, {**newest(), OTHER: int(NOW - 90_000)})
    (found,) = clocks.among(seen, {CLOCK: 1, OTHER: 3})
    assert (found.status, found.text) == ("ok", "no record of 2 brokers is in the future")
