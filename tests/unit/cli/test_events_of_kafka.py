"""What the commands that read `events` themselves print, and the times that they take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from confluent_kafka import KafkaError, KafkaException
from support.operator_cluster import make_event
from typer.testing import CliRunner

from streams.api.events import cli_count as event_count
from streams.api.events import cli_export as event_export
from streams.api.events.cli import events
from streams.api.events.cli_selection import ranges, time_of
from streams.cli.cluster import addressed
from streams.errors import KafkaUnavailable
from streams.event_reader.counts import Counts, notes
from streams.event_reader.scan import MOST_TYPES, Found, Progress
from streams.event_reader.selection import Selection
from streams.event_reader.span import Span, purged_of
from streams.settings import Settings

HOSTILE = "order[/b]\x1b]0;owned\x07\u202epaid"


def test_what_a_body_names_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    notes = [f"no event has a type 'x' (did you mean '{HOSTILE}'?)"]
    count = {"by_type": {HOSTILE: 2}, "by_day": {}, "other_types": 0, "events": 2, "notes": notes}
    export = {"events": 2, "events_in_all": 2, "files": 1, "directory": "out", "notes": notes}
    shows: tuple[tuple[Callable[..., None], object], ...] = (
        (event_count._show, count),
        (event_export._show, export),
    )
    for show, found in shows:
        show(found)
        told = "".join(capsys.readouterr())
        assert "order[/b]" in told
        assert [c for c in told if not c.isprintable() and c != "\n"] == []


def test_types_after_the_thousandth_are_one_number() -> None:
    counts = Counts()
    for number in (*range(1_200), *range(5)):
        event = make_event(event_type=f"t{number}")
        counts.add(Found(0, number, 1_700_000_000_000, event, b"", None))
    found = counts.json()
    assert (found["events"], found["other_types"]) == (1_205, 200)
    assert len(counts.types) == 1_000
    assert next(iter(counts.types)) == "t0"


def test_a_time_before_1970_is_1970() -> None:
    """Kafka takes -1 for the end of a topic, and -2 for its start."""
    for text in ("1969-12-31T23:59:59.999Z", "1900-01-01", "30000d"):
        assert time_of(text, "--since") == 0


def test_offsets_that_are_purged_are_told() -> None:
    found = {n: Span(oldest=100, first=100, end=200) for n in range(4)}
    asked = {0: (40, 60), 1: (90, 150), 2: (40, None), 3: (100, 150)}
    told = [note.split(", from")[0] for note in purged_of(found, asked)]
    assert told == [
        "20 of these offsets of partition 0",
        "10 of these offsets of partition 1",
        "60 of these offsets of partition 2",
    ]


@pytest.mark.parametrize("text", ["0:5-5", "0:9-5"])
def test_a_range_that_holds_no_offset_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="its end must be after its first offset"):
        ranges([text])


def test_a_type_is_called_absent_only_if_all_types_are_known() -> None:
    """A scan remembers the first thousand: a later one may have been counted."""
    seen = Progress(0, 0, types={f"t{n}" for n in range(MOST_TYPES - 1)})
    assert len(list(notes(seen, {}, Selection(types=("late",))))) == 1
    seen.types.add("another")
    assert list(notes(seen, {}, Selection(types=("late",)))) == []


@pytest.mark.parametrize(
    "words",
    [["count"], ["tail"], ["export", "--to", "out"], ["seek", "--group", "mine", "--to", "end"]],
)
def test_a_setting_that_the_client_refuses_is_an_error_in_one_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = CliRunner().invoke(events, words, env={"TIDEGATE_KAFKA_NO_SUCH_THING": "1"})
    assert (told.exit_code, told.stderr) == (
        1,
        'error: 127.0.0.1:9092: No such configuration property: "no.such.thing"\n',
    )


def test_a_text_that_is_not_utf8_and_an_absurd_duration_are_refused() -> None:
    for words, told in (
        (["count", "--tenant", "\udcff"], "is not UTF-8"),
        (["export", "--to", "out", "--type", "a\udcff*"], "is not UTF-8"),
        (["count", "--since", f"{10**30}d"], "is too long"),
    ):
        result = CliRunner().invoke(events, words)
        assert (result.exit_code, told in result.output) == (2, True), result.output


def test_a_key_needs_times_that_mean_the_same_whenever_it_is_sent() -> None:
    words = ["replay", "--tenant", "acme", "--route", "--note", "n", "--key", "k", "--since", "2d"]
    result = CliRunner().invoke(events, words)
    assert result.exit_code == 2
    assert "with --key give times" in result.output


def test_a_replay_says_once_what_each_event_gets() -> None:
    for also in ([], ["--route", "--job", "x"]):
        result = CliRunner().invoke(events, ["replay", "--tenant", "acme", "--note", "n", *also])
        assert result.exit_code == 2
        assert "--job TYPE or --route" in result.output


def test_a_tenant_of_whom_no_event_was_read_is_named() -> None:
    seen = Progress(5, 5)
    assert list(notes(seen, {}, Selection(tenant_id="ghost"))) == [], "nothing was read"
    seen.oldest_at = 1
    [note] = notes(seen, {}, Selection(tenant_id="ghost"))
    assert "'ghost'" in note
    seen.types.add("order")
    assert list(notes(seen, {}, Selection(tenant_id="acme"))) == []


def test_an_error_names_how_to_find_a_dev_elsewhere_unless_brokers_were_named(
    tmp_path: Path,
) -> None:
    for settings, told in (
        (Settings(data_dir=tmp_path), True),
        (Settings(data_dir=tmp_path, bootstrap="127.0.0.1:9092"), False),
    ):
        with pytest.raises(KafkaUnavailable) as caught, addressed(settings):
            raise KafkaUnavailable("no broker answers")
        assert ("--data-dir" in str(caught.value)) == told


def test_an_error_of_a_leader_that_moves_asks_for_another_try(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, bootstrap="127.0.0.1:9092")
    for code, again in (
        (KafkaError.NOT_LEADER_FOR_PARTITION, True),
        (KafkaError.INVALID_CONFIG, False),
    ):
        with pytest.raises(KafkaUnavailable) as caught, addressed(settings):
            raise KafkaException(KafkaError(code))
        assert ("run the command again" in str(caught.value)) == again


READERS = (
    ("count",),
    ("tail",),
    ("export", "--to", "out"),
    ("seek", "--group", "mine", "--to", "end"),
)


@pytest.mark.parametrize("command", READERS, ids=lambda words: words[0])
def test_a_reader_of_kafka_finds_the_dev_of_a_directory_or_says_that_none_runs_there(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEGATE_BOOTSTRAP", raising=False)
    monkeypatch.setattr("streams.api.events.cli_selection.BROKER_SECONDS", 0.1)
    monkeypatch.setattr("streams.api.events.cli_seek._BROKER_SECONDS", 0.1)
    there, empty = tmp_path / "there", tmp_path / "empty"
    there.mkdir()
    (there / "dev.json").write_text('{"bootstrap": "127.0.0.1:9"}')
    asked = CliRunner().invoke(events, [*command, "--data-dir", str(there)])
    assert (asked.exit_code, "127.0.0.1:9: " in asked.stderr) == (1, True)
    refused = CliRunner().invoke(events, [*command, "--data-dir", str(empty)])
    assert (refused.exit_code, f"no `tidegate dev` runs in {empty}" in refused.stderr) == (2, True)
