"""Where an export writes, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
import typer
from support.operator_cluster import make_event
from support.played_consumer import PlayedConsumer

from streams.api.events import cli_export as event_export
from streams.api.events.cli_selection import ranges
from streams.event_export import export as exports
from streams.event_export import manifest as manifests
from streams.event_export.export import Export, file_of, left, purged
from streams.event_export.formats import encoder
from streams.event_export.manifest import ExportRefused, Manifest
from streams.event_reader import scan as scanning
from streams.event_reader.rows import row
from streams.event_reader.scan import Found, Scan
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span, within
from streams.http.moments import rfc3339
from streams.kafka import tail as tails
from streams.serde.codec import ENVELOPE
from streams.settings import Settings

TYPES = [
    "order.paid",
    "Order.Paid",
    "../../etc",
    "a/b",
    "..",
    "x" * 200,
    "x" * 199 + "y",
    "é\n",
    "a=b",
    "\u6ce8\u6587" * 20,
    "a" + "\u043f" * 199,
]


def test_a_part_is_bounded_by_its_bytes_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = make_event("a1")
    record = ENVELOPE.encode(event)
    monkeypatch.setattr(exports, "PART_BYTES", 3 * len(record))
    monkeypatch.setattr(scanning, "_BATCH", 1)
    monkeypatch.setattr(tails, "Consumer", lambda _: PlayedConsumer([[record] * 7]))
    scan = Scan(Settings(), {0: Span(0, 0, 7)}, Selection())
    done = Export(tmp_path, "jsonl", Manifest({}, None, None)).run(scan)
    rows = [len(file.read_text().splitlines()) for file in sorted(tmp_path.rglob("*.jsonl"))]
    assert (done.events, rows) == (7, [3, 3, 1])


def test_every_type_has_a_file_of_its_own_two_levels_below_the_directory(tmp_path: Path) -> None:
    files = [file_of(tmp_path, 3, "2026-11-24", type_, "jsonl") for type_ in TYPES]
    assert all(file.parent.parent.parent == tmp_path for file in files)
    assert all(len(part.encode()) <= 255 for file in files for part in file.parts)
    assert len({str(file).lower() for file in files}) == len(TYPES)
    assert all(file.resolve().is_relative_to(tmp_path.resolve()) for file in files)
    for file in files:
        unquote(file.parent.name, errors="strict")  # DuckDB and pandas refuse all files otherwise


def test_files_of_parts_that_do_not_count_are_deleted_and_no_others(tmp_path: Path) -> None:
    kept = [file_of(tmp_path, n, "2026-11-24", "a", "jsonl") for n in (0, 1)]
    gone = [file_of(tmp_path, n, "2026-11-24", "a", "jsonl") for n in (2, 11)]
    own, theirs = (kept[0].with_name(name) for name in ("notes.txt", "20260101-mine.parquet"))
    half = kept[0].with_name(f".{gone[0].name}.tmp")
    for file in (*kept, *gone, own, theirs, half):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    manifests.delete_uncounted(tmp_path, 2)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {*kept, own, theirs}


def test_a_run_goes_on_behind_what_is_written() -> None:
    written = Manifest({}, None, None, next={"0": 20, "1": 40})
    spans = {0: Span(0, 10, 50), 1: Span(0, 0, 40), 2: Span(5, 5, 9)}
    assert left(spans, written) == {0: Span(0, 20, 50), 1: Span(0, 40, 40), 2: Span(5, 5, 9)}


def test_a_partition_that_ends_before_what_is_written_is_refused() -> None:
    """Events that came since have the offsets of lost ones, and would be passed over."""
    written = Manifest({}, None, None, next={"1": 90})
    with pytest.raises(ExportRefused, match=r"partition 1 ends at offset 40, .* on to 90"):
        left({1: Span(0, 0, 40)}, written)


def test_what_was_purged_since_the_last_run_is_told() -> None:
    written = Manifest({}, None, None, next={"0": 50, "1": 90})
    spans = {0: Span(80, 80, 99), 1: Span(80, 80, 99), 2: Span(80, 80, 99)}
    assert [told.split(" were")[0] for told in purged(spans, written, {})] == [
        "30 offsets of partition 0"
    ]


def test_what_was_purged_of_a_partition_that_was_empty_at_the_first_run_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [[ENVELOPE.encode(make_event("a0"))], []]
    monkeypatch.setattr(tails, "Consumer", lambda _: PlayedConsumer(logs))
    scan = Scan(Settings(), {0: Span(0, 0, 1), 1: Span(0, 0, 0)}, Selection())
    written = Export(tmp_path, "jsonl", Manifest({}, None, None)).run(scan)
    assert (written.events, manifests.read(tmp_path)) == (1, written)
    later = {0: Span(0, 0, 1), 1: Span(80, 80, 99)}
    assert [told.split(" were")[0] for told in purged(later, written, {})] == [
        "80 offsets of partition 1"
    ]


def test_what_was_purged_behind_the_offsets_that_are_asked_for_is_not_told() -> None:
    written = Manifest({}, None, None, next={"0": 60, "1": 50})
    chosen = ranges(["0:10-60", "1:10-60"])
    asked = within(dict.fromkeys((0, 1), Span(80, 80, 99)), chosen)
    assert [told.split(" were")[0] for told in purged(asked, written, chosen)] == [
        "10 offsets of partition 1"
    ]


def test_what_was_purged_before_the_offsets_that_are_asked_for_is_not_told() -> None:
    """The last run has found partitions that did not reach as far as these offsets."""
    written = Manifest({}, None, None, next={"0": 0, "1": 0})
    chosen = ranges(["0:10-100", "1:10-100"])
    later = within({0: Span(5, 5, 200), 1: Span(50, 50, 200)}, chosen)
    assert [told.split(" were")[0] for told in purged(later, written, chosen)] == [
        "40 offsets of partition 1"
    ]


@pytest.mark.parametrize(("read_before", "told"), [(0, True), (1, False)])
def test_a_misspelled_type_is_told_by_the_first_run_that_finds_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_before: int, told: bool
) -> None:
    """A later one knows only the types of new events."""
    logs = [[ENVELOPE.encode(make_event(f"a{n}")) for n in range(2)]]
    monkeypatch.setattr(tails, "Consumer", lambda _: PlayedConsumer(logs))
    start = Manifest({"format": "jsonl"}, None, None, next={"0": read_before})
    found = event_export._exported(
        Settings(),
        tmp_path,
        start,
        {0: Span(0, 0, 2)},
        {},
        Selection(types=("ordr.*",)),
        lambda _: None,
    )
    assert any("no event has a type 'ordr.*'" in note for note in found["notes"]) == told


def test_files_whose_manifest_is_lost_are_not_touched(tmp_path: Path) -> None:
    file = file_of(tmp_path, 3, "2026-11-24", "a", "jsonl")
    file.parent.mkdir(parents=True)
    file.touch()
    with pytest.raises(ExportRefused, match="which says how far they go"):
        manifests.begun(tmp_path, {}, None, None)
    assert file.exists()


def test_an_absurd_time_does_not_end_an_export() -> None:
    assert rfc3339(10**17) == "9999-12-31T23:59:59.999Z"
    assert rfc3339(-(10**17)) == "0001-01-01T00:00:00.000Z"


def test_one_absurd_time_does_not_make_a_file_unreadable() -> None:
    """DuckDB refuses a whole file for one time that its own type does not hold."""
    pyarrow, parquet = (pytest.importorskip(n) for n in ("pyarrow", "pyarrow.parquet"))
    rows = [
        row(Found(0, n, 1_700_000_000_000, make_event(f"a{n}", occurred_at=at), b"", None))
        for n, at in enumerate((10**17, -(10**17), None, 5))
    ]
    table = parquet.read_table(pyarrow.BufferReader(encoder("parquet")(rows)))
    assert [at and at.year for at in table["occurred_at"].to_pylist()] == [9999, 1, None, 1970]


def test_a_broken_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / manifests.NAME).write_text("{")
    with pytest.raises(ExportRefused, match="is no manifest of an export"):
        manifests.read(tmp_path)


def test_offsets_name_a_partition_once_and_may_be_open() -> None:
    assert ranges(["0:5-9", "3:7-"]) == {0: (5, 9), 3: (7, None)}
    for wrong in (["0"], ["0:9"], ["0:1-2", "0:3-4"], ["-1:0-1"]):
        with pytest.raises(typer.BadParameter, match="write a partition and its offsets once"):
            ranges(wrong)
