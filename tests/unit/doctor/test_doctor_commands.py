"""The commands of remedies mean the installation that was looked at."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from streams.cli.cluster import found_settings
from streams.doctor import configuration
from streams.doctor.commands import Commands
from streams.doctor.finding import Unseen
from streams.doctor.groups import expected
from streams.doctor.on_kafka import unreached
from streams.doctor.operator_state import operator
from streams.doctor.operator_view import OperatorSeen
from streams.doctor.subject import subject
from streams.settings import Settings
from streams.topology.load import Checked

OVERLAY = """
pools: [{name: gpu}]
routes: [{match: {source: shop, event_type: "*"}, job: draft}]
"""
COMMAND = ["dev", "--app", "app:app", "--topology", "t.yaml"]


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a running `dev` with a topology and a prefix of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.yaml").write_text(OVERLAY)
    state = {
        "url": "http://127.0.0.1:8080",
        "bootstrap": "127.0.0.1:9333",
        "command": COMMAND,
        "directory": str(tmp_path),
        "topology": str(tmp_path / "t.yaml"),
        "topic_prefix": "mine.",
    }
    there = tmp_path / ".tidegate"
    there.mkdir()
    (there / "dev.json").write_text(json.dumps(state))
    return there


def test_the_topology_and_the_prefix_are_those_that_dev_runs_with(data_dir: Path) -> None:
    settings = found_settings(None)
    assert (settings.bootstrap, settings.topic_prefix) == ("127.0.0.1:9333", "mine.")
    found = subject(settings, None, None)
    assert isinstance(found.topology, Checked)
    assert "gpu" in found.topology.topology.pools
    (told,) = configuration.topology(found.topology, found.settings.topology)
    assert told.text.endswith("1 route")


@pytest.mark.usefixtures("data_dir")
def test_what_is_set_goes_before_what_dev_runs_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.yaml").write_text("{}")
    monkeypatch.setenv("TIDEGATE_TOPIC_PREFIX", "set.")
    settings = found_settings(tmp_path / "other.yaml")
    assert (settings.topology, settings.topic_prefix) == (tmp_path / "other.yaml", "set.")
    assert settings.bootstrap == "127.0.0.1:9333"


@pytest.mark.usefixtures("data_dir")
def test_another_kafka_has_nothing_of_dev() -> None:
    settings = found_settings(None, "kafka:9092")
    assert (settings.topology, settings.topic_prefix) == (None, "")
    assert subject(settings, None, None).commands.dev == {}


def test_a_command_for_the_brokers_names_prefix_address_and_topology(data_dir: Path) -> None:
    commands = subject(found_settings(None), None, None).commands
    file = shlex.quote(str(data_dir.parent / "t.yaml"))
    assert commands.on_kafka("topology", "apply") == (
        "TIDEGATE_TOPIC_PREFIX=mine. tidegate topology apply --bootstrap 127.0.0.1:9333 "
        f"--topology {file}"
    )


def test_in_the_folder_of_dev_a_missing_process_is_one_that_dev_starts(data_dir: Path) -> None:
    found = subject(found_settings(None), None, None)
    assert isinstance(found.topology, Checked)
    starts = {each.name: each.start for each in expected(found.topology.topology, "fused")}
    told = {name: found.commands.process(*start) for name, start in starts.items()}
    again = "tidegate dev --app app:app --topology t.yaml"
    assert told["analytics"].endswith(f"{again} --analytics")
    assert str(data_dir.relative_to(data_dir.parent) / "logs") in told["pipeline"]


def test_a_dev_that_was_killed_is_started_as_it_was(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = subject(found_settings(None), None, None)
    told, *_ = unreached(found, Unseen("silence"))
    assert "`tidegate dev --app app:app --topology t.yaml`" in (told.remedy or "")
    monkeypatch.chdir("/")
    elsewhere = found_settings(None, data_dir=data_dir)
    told, *_ = unreached(subject(elsewhere, None, None), Unseen("silence"))
    start = f"cd {shlex.quote(str(data_dir.parent))} && tidegate dev --app"
    assert start in (told.remedy or "")


def test_nobody_is_told_to_start_an_embedded_kafka_in_place_of_a_named_one(tmp_path: Path) -> None:
    named = Settings(bootstrap="kafka-1:9092", data_dir=tmp_path)
    told, *_ = unreached(subject(named, None, None), Unseen("silence"))
    assert (told.remedy or "").startswith("start the brokers at kafka-1:9092, or name another")
    told, *_ = unreached(subject(Settings(data_dir=tmp_path), None, None), Unseen("silence"))
    assert f"tidegate broker start --data-dir {tmp_path}" in (told.remedy or "")
    assert (told.remedy or "").startswith("give --data-dir if `tidegate dev` runs in")


@pytest.mark.parametrize(
    ("settings", "url", "ends"),
    [
        (Settings(), None, "dlq list --not-replayed"),
        (Settings(), "http://op:8080", "dlq list --not-replayed --url http://op:8080"),
        (Settings(data_dir=Path("/srv/t")), None, "dlq list --not-replayed --data-dir /srv/t"),
    ],
)
def test_a_list_for_people_is_that_of_the_operator_that_was_asked(
    settings: Settings, url: str | None, ends: str
) -> None:
    seen = OperatorSeen(200, "ready", "tidegate_dead_letters 3.0\n")
    *_, told = operator(Commands(settings, url, {}), seen)
    assert (told.text, told.remedy) == ("3 dead letters", f"tidegate {ends}")


def test_a_new_key_is_advised_for_a_new_installation_alone(tmp_path: Path) -> None:
    missing = Settings(vault_key_file=(tmp_path / "gone.key",))
    (told,) = configuration.keys(missing, None)
    assert told.status == "fail"
    assert (told.remedy or "").startswith("mount the key that the other processes have")
