"""`tidegate events export` and `tail` on a real broker: every selected event, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from mmap import PAGESIZE
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from confluent_kafka import TopicPartition
from support.broken_records import BROKEN_EVENT
from support.conditions import PATIENCE_SECONDS, eventually, exit_code
from support.kafka_under_test import KafkaUnderTest
from support.operator_cluster import Cluster, make_cluster, make_event
from support.small_disk import small_disk
from typer.testing import CliRunner, Result

from streams.api.events.cli import events
from streams.api.events.cli_selection import Wanted
from streams.event_export import export as exporting
from streams.event_export import manifest as manifests
from streams.event_reader import scan
from streams.event_reader.selection import Selection
from streams.kafka.admin import admin_client

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
Run = Callable[..., Result]
PAGE = (ROOT / "docs/read-the-events.md").read_text()
[PROGRAM] = [p.split("```")[0] for p in PAGE.split("```python\n") if "import duckdb" in p]


@pytest.fixture
def cluster(kafka: KafkaUnderTest, tmp_path: Path) -> Cluster:
    return make_cluster(kafka.bootstrap, kafka.client_settings, tmp_path)


@pytest.fixture
def environ(cluster: Cluster, kafka: KafkaUnderTest) -> dict[str, str]:
    passed = {
        f"TIDEGATE_KAFKA_{name.upper().replace('.', '_')}": str(value)
        for name, value in kafka.client_settings.items()
    }
    return {
        "TIDEGATE_TOPIC_PREFIX": cluster.settings.topic_prefix,
        "TIDEGATE_BOOTSTRAP": kafka.bootstrap,
        **passed,
    }


@pytest.fixture
def run(environ: dict[str, str]) -> Run:
    return lambda *words: CliRunner().invoke(events, [*words], env=environ)


def written(cluster: Cluster, run: Run, count: int, prefix: str = "k") -> set[str]:
    """Events of two types, once a committed reader is told of all of them; their ids."""
    made = [
        make_event(
            f"{prefix}{n}",
            ("acme", "bolt")[n % 2],
            event_type=("order.paid", "a/../b")[n % 2],
            attributes={"n": str(n)},
        )
        for n in range(count)
    ]
    cluster.write(make_event("aborted"), commit=False)
    before = counted(run)
    cluster.write(*made)
    eventually(lambda: counted(run) == before + count, what="all events are told of")
    return {event.event_id for event in made}


def counted(run: Run) -> int:
    return int(json.loads(run("count", "--json").stdout)["events"])


def exported(run: Run, folder: Path, *words: str) -> dict[str, Any]:
    result = run("export", "--to", str(folder), *words, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def ids_in(folder: Path) -> Counter[str]:
    lines = [line for path in folder.glob("day=*/type=*/[0-9]*") for line in path.open()]
    return Counter(json.loads(line)["event_id"] for line in lines)


def test_duckdb_and_pandas_read_what_is_exported_as_parquet(
    cluster: Cluster, run: Run, tmp_path: Path
) -> None:
    ids, folder = written(cluster, run, 10), tmp_path / "events"
    assert exported(run, folder, "--format", "parquet")["events"] == 10
    files = f"{folder}/day=*/type=*/*.parquet"
    found = duckdb.execute(
        f"SELECT event_type, count(*), min(attributes['n']) FROM read_parquet('{files}',"
        " hive_partitioning = true) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert [(type_, count) for type_, count, _ in found] == [("a/../b", 5), ("order.paid", 5)]
    table = pd.read_parquet(folder / f"day={next(folder.glob('day=*')).name[4:]}")
    assert set(table["event_id"]) == ids
    assert str(table["at"].dtype) == "datetime64[ms, UTC]"
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    ).stdout
    assert "a/../b" in told
    assert told.count("    5\n") == 2, told


def test_a_second_run_adds_what_has_come_and_another_selection_is_refused(
    cluster: Cluster, run: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    ids = written(cluster, run, 4)
    assert exported(run, folder)["events"] == 4
    assert exported(run, folder)["events"] == 0
    ids |= written(cluster, run, 2, "more")
    assert exported(run, folder)["events"] == 2
    assert ids_in(folder) == Counter(ids)
    refused = run("export", "--to", str(folder), "--tenant", "acme")
    assert (refused.exit_code, "holds an export with tenant None" in refused.stderr) == (2, True)
    with manifests.locked(folder):
        refused = run("export", "--to", str(folder))
    assert (refused.exit_code, "another export writes into" in refused.stderr) == (2, True)
    assert not [path for path in tmp_path.rglob("*.jsonl") if folder not in path.parents]


def test_a_kill_in_the_middle_of_an_export_loses_and_repeats_nothing(
    cluster: Cluster, run: Run, environ: dict[str, str], tmp_path: Path
) -> None:
    ids, folder = written(cluster, run, 3_000), tmp_path / "out"
    program = (
        "from streams.event_export import export; from streams.event_reader import scan;"
        "from streams.cli.main import main; scan._BATCH = 50;"
        "export.Export.__init__.__defaults__ = (100,); main()"
    )
    words = ["events", "export", "--to", str(folder)]
    for files in (1, 5, 12):
        with subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdout=subprocess.DEVNULL,
            env={**os.environ, **environ, "PYTHONPATH": str(ROOT)},
        ) as exporter:
            eventually(
                lambda least=files: len(list(folder.rglob("*.jsonl"))) >= least,  # type: ignore[misc]
                what=f"{files} files are written",
            )
            exporter.send_signal(signal.SIGKILL)
    exported(run, folder)
    assert ids_in(folder) == Counter(ids)


@pytest.mark.parametrize("pages", [3, 5, 8])
def test_a_full_disk_is_told_and_the_next_run_goes_on(
    cluster: Cluster, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int
) -> None:
    ids = written(cluster, run, 8)
    monkeypatch.setattr(scan, "_BATCH", 1)
    monkeypatch.setattr(exporting.Export.__init__, "__defaults__", (1,))
    with small_disk(tmp_path / "small", 1) as disk:
        folder = disk.path / "out"
        disk.fill(leave=pages * PAGESIZE)
        result = run("export", "--to", str(folder))
        assert (result.exit_code, "No space left on device" in result.stderr) == (1, True)
        assert "make room, then type the command again" in result.stderr
        before = sum(ids_in(folder).values())
        disk.free()
        exported(run, folder)
        assert before < len(ids)
        assert ids_in(folder) == Counter(ids)


def test_how_long_ago_means_to_the_next_run_what_it_meant_to_the_first(
    cluster: Cluster, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run is two days later: what the first one had to leave out is older than a day."""
    ids, folder = written(cluster, run, 8), tmp_path / "out"
    monkeypatch.setattr(scan, "_BATCH", 1)
    monkeypatch.setattr(exporting.Export.__init__, "__defaults__", (1,))

    def full(path: Path, content: bytes) -> None:
        if path.name.startswith("00000003"):
            raise OSError(28, "No space left on device", str(path))
        durable(path, content)

    durable = manifests.durable
    with monkeypatch.context() as patched:
        patched.setattr(manifests, "durable", full)
        assert run("export", "--to", str(folder), "--since", "1d").exit_code == 1

    def later(wanted: Wanted, until: str | None = None) -> Selection:
        found = selection(wanted, until)
        return replace(found, since=(found.since or 0) + 2 * 86_400_000)

    selection = Wanted.selection
    monkeypatch.setattr(Wanted, "selection", later)
    assert exported(run, folder, "--since", "1d")["events_in_all"] == 8
    assert ids_in(folder) == Counter(ids)


def test_what_cannot_be_read_or_was_purged_meanwhile_is_told(
    cluster: Cluster, run: Run, tmp_path: Path
) -> None:
    folder, home = tmp_path / "out", cluster.home("acme")
    written(cluster, run, 2)
    cluster.write(("events", home, b"acme", BROKEN_EVENT))
    eventually(
        lambda: json.loads(run("count", "--json").stdout)["unreadable"] == 1,
        what="the broken record is told of",
    )
    told = exported(run, folder)
    assert (told["events"], told["unreadable"]) == (2, 1)
    assert "1 records cannot be read" in told["notes"][0]
    cluster.write(make_event("gone"))
    admin = admin_client(cluster.settings)  # without a name it would end before it has an answer
    place = TopicPartition(cluster.settings.topic_prefix + "events", home, -1)
    for deleted in admin.delete_records([place]).values():
        deleted.result(10)
    told = exported(run, folder)
    assert told["events"] == 0
    assert f"of partition {home} were purged before they were exported" in told["notes"][0]


def test_tail_begins_with_the_newest_and_goes_on_with_what_comes(
    cluster: Cluster, run: Run, environ: dict[str, str]
) -> None:
    written(cluster, run, 6)
    words = [sys.executable, "-m", "streams.cli", "events", "tail"]
    env = {**os.environ, **environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*words, "--last", "2", "--json"], stdout=subprocess.PIPE, text=True, env=env
    ) as tail:
        assert tail.stdout is not None
        first = {json.loads(tail.stdout.readline())["event_id"] for _ in range(2)}
        cluster.write(make_event("aborted2"), commit=False)
        cluster.write(make_event("late"))
        assert json.loads(tail.stdout.readline())["event_id"] == "evt_late"
        tail.send_signal(signal.SIGINT)
        assert exit_code(tail) == 0
    assert len(first) == 2
    with subprocess.Popen(
        [*words, "--type", "ordr.*"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as silent:
        assert silent.stderr is not None
        assert "waiting for the next such event" in silent.stderr.readline()
        silent.send_signal(signal.SIGINT)
        told = silent.communicate(timeout=PATIENCE_SECONDS)
        assert (silent.returncode, told) == (0, ("", ""))
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{' '.join(words)} --type 'order.*' | head -n 1"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as piped:
        assert piped.stdout is not None
        assert "order.paid" in piped.stdout.readline()
        cluster.write(make_event("after"), make_event("that"))
        assert piped.communicate(timeout=PATIENCE_SECONDS) == ("", "")
