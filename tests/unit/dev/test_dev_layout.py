"""Command lines, ports, environments, credentials and the claim on a data directory."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from dataclasses import fields
from ipaddress import ip_address
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from streams.broker.ports import accepts, is_free
from streams.delivery.egress.configured import egress_policy
from streams.dev.command import dev
from streams.dev.credentials import credentials, signing_secret
from streams.dev.data_dir_lock import claimed, write_state
from streams.dev.layout import (
    Layout,
    Pool,
    environment,
    held,
    members,
    process_spec,
    public_address,
    waves,
)
from streams.dev.pipeline import listen, listen_within
from streams.dev_state import read_state
from streams.errors import ConfigError
from streams.settings import load_settings
from streams.stages import STAGES
from streams.vault.key_encryption import read_key

TOKEN = "not-for-everyone"


def test_every_process_has_a_name_and_a_port_of_its_own() -> None:
    placed = members(Layout.apart(ingress=2, dedup=2, dispatcher=2, worker=2))
    assert len({member.name for member in placed}) == 11
    assert len({member.port for member in placed}) == 11
    assert {"ingress-0", "ingress-1", "scheduler-0", "worker-1"} < {m.name for m in placed}


def test_no_other_process_gets_the_ports_while_kafka_starts() -> None:
    """Of two pipelines that started at once, one's stage could never take its port."""
    placed = members(Layout())
    with held(placed):
        assert [is_free(each.port) for each in placed] == [False] * len(placed)
        assert [accepts(each.port) for each in placed] == [False] * len(placed)
        with held(placed):  # taken already: whoever starts there says so
            pass
    assert [is_free(each.port) for each in placed] == [True] * len(placed)


@pytest.mark.parametrize(
    ("layout", "stages"),
    [(Layout(), ["pipeline-0"]), (Layout.apart(), ["dedup-0", "dispatcher-0", "scheduler-0"])],
)
def test_stops_in_the_order_of_the_flow(layout: Layout, stages: list[str]) -> None:
    specs = waves(members(layout), load_settings({}), "a:b", {})
    names = [sorted(spec.name for spec in wave) for wave in specs]
    assert names == [["ingress-0"], ["worker-0"], stages, ["delivery-0", "operator-0"]]


def test_the_command_line_shows_the_stage_and_no_secret(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path, admin_token=TOKEN, topology=tmp_path / "t.yaml")
    env = environment(settings, credentials(settings).environment())
    for member in members(Layout(analytics=1)):
        spec = process_spec(member, settings, "shop:app", env)
        assert f" {member.stage} " in " ".join(spec.argv).replace("streams.cli", "tidegate")
        assert str(member.port) in spec.argv
        assert str(tmp_path / "t.yaml") in spec.argv
        assert ("shop:app" in spec.argv) == (member.stage == "worker")
        assert TOKEN not in " ".join(spec.argv)
        assert TOKEN not in repr(spec)
        has_token = spec.env.get("TIDEGATE_ADMIN_TOKEN") == TOKEN
        assert has_token == (member.stage in ("operator", "analytics"))


@pytest.mark.parametrize("layout", [Layout(analytics=1), Layout.apart()])
def test_owners_and_workers_alone_have_the_token_of_the_link(
    tmp_path: Path, layout: Layout
) -> None:
    settings = load_settings({}, data_dir=tmp_path)
    env = environment(settings, credentials(settings).environment())
    env |= {"TIDEGATE_LINK_TOKEN": TOKEN}  # if somebody has set it in place of the file
    have = {
        member.stage
        for member in members(layout)
        if any("LINK_TOKEN" in name for name in process_spec(member, settings, "a:b", env).env)
    }
    owner = "pipeline" if layout.pipeline else "dispatcher"
    assert have == {owner, "worker"}


def test_clients_settings_reach_every_process() -> None:
    settings = load_settings(
        {}, kafka={"security.protocol": "SASL_SSL"}, topic_prefix="t.", slots=7
    )
    given = environment(settings, {"MORE": "1"})
    again = load_settings(given)
    assert (again.kafka, again.topic_prefix) == ({"security.protocol": "SASL_SSL"}, "t.")
    assert again.slots == 7
    assert given["MORE"] == "1"


@pytest.mark.parametrize(
    ("url", "given", "expected"),
    [
        ("http://127.0.0.1:8080", {}, {"TIDEGATE_PUBLIC_URL": "http://127.0.0.1:8080"}),
        ("http://0.0.0.0:8080", {}, {}),
        ("http://127.0.0.1:8080", {"TIDEGATE_PUBLIC_URL": "https://ops.example.com"}, {}),
    ],
)
def test_people_sign_in_on_this_machine_unless_another_address_is_set(
    url: str, given: dict[str, str], expected: dict[str, str]
) -> None:
    assert public_address(load_settings(given), url) == expected


def test_outgoing_requests_may_reach_this_machine_and_what_the_settings_allow() -> None:
    settings = load_settings({"TIDEGATE_EGRESS_ALLOW_NETWORKS": "10.0.0.0/8"})
    policy = egress_policy(load_settings(environment(settings, {})))
    assert policy.allow_http
    reached = ("127.0.0.1", "::1", "10.1.2.3", "192.168.0.1")
    assert [policy.permits(ip_address(each)) for each in reached] == [True, True, True, False]


def test_credentials_are_made_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    settings = load_settings({}, data_dir=tmp_path)
    first, second = credentials(settings), credentials(settings)
    (vault_key,) = first.vault_key_file
    link_token = first.link_token_file
    assert link_token is not None
    files = (vault_key, link_token, tmp_path / "admin.token")
    assert len(link_token.read_text()) >= 32
    assert first.environment()["TIDEGATE_LINK_TOKEN_FILE"] == str(link_token)
    assert first == second
    assert len(read_key(vault_key, "x")) == 32
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert first.admin_token not in repr(first)


def test_a_given_admin_token_wins_and_is_kept_for_the_other_commands(tmp_path: Path) -> None:
    credentials(load_settings({}, data_dir=tmp_path))
    given = credentials(load_settings({}, data_dir=tmp_path, admin_token=TOKEN))
    assert given.admin_token == TOKEN
    assert (tmp_path / "admin.token").read_text() == TOKEN


def test_an_empty_admin_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TIDEGATE_ADMIN_TOKEN is empty"):
        credentials(load_settings({"TIDEGATE_ADMIN_TOKEN": ""}, data_dir=tmp_path))


def test_signing_secrets_survive(tmp_path: Path) -> None:
    assert signing_secret(tmp_path, "a") == signing_secret(tmp_path, "a")
    assert signing_secret(tmp_path, "a") != signing_secret(tmp_path, "b")


def test_a_data_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--data-dir"), claimed(tmp_path / "file" / "data"):
        pass


def test_a_second_pipeline_on_the_directory_is_refused_with_who_is_there(tmp_path: Path) -> None:
    with claimed(tmp_path):
        write_state(tmp_path, {"pid": 4711, "url": "http://127.0.0.1:8080"})
        with (
            pytest.raises(ConfigError, match=r"pid 4711, http://127.0.0.1:8080.*--data-dir"),
            claimed(tmp_path),
        ):
            pass
        assert read_state(tmp_path)["pid"] == 4711
    with claimed(tmp_path):
        assert read_state(tmp_path) == {}


def test_the_claim_of_a_killed_pipeline_is_void_but_its_state_is_left(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from streams.dev.data_dir_lock import *\n"
        "d = Path(sys.argv[1])\n"
        "with claimed(d):\n  write_state(d, {'pid': 1}); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert ended.returncode == -9
    assert read_state(tmp_path) == {"pid": 1}
    with claimed(tmp_path):
        pass
    assert read_state(tmp_path) == {}


def test_damaged_state_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "dev.json").write_text("{")
    assert read_state(tmp_path) == {}


def test_a_taken_port_is_told() -> None:
    with listen("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127.0.0.1:{port}.*--port"):
            listen("127.0.0.1", port)


async def test_a_port_that_a_killed_pipelines_ingress_still_has_is_waited_for() -> None:
    left = listen("127.0.0.1", 0)
    port = left.getsockname()[1]
    asyncio.get_running_loop().call_later(0.3, left.close)
    with await listen_within(5.0, "127.0.0.1", port) as listener:
        assert listener.getsockname()[1] == port
        with pytest.raises(ConfigError, match="--port"):
            await listen_within(0.0, "127.0.0.1", port)


def test_state_is_one_json_object(tmp_path: Path) -> None:
    write_state(tmp_path, {"pid": os.getpid()})
    assert json.loads((tmp_path / "dev.json").read_text()) == {"pid": os.getpid()}


def test_every_stage_has_its_number_in_the_layout_and_stops_in_a_wave() -> None:
    """One that were missing would get no process, and nobody would be told."""
    assert {field.name for field in fields(Layout)} == {*STAGES, "slots", "pools"}
    every = members(_one_of_each())
    stopped = [spec.name for wave in waves(every, load_settings(), "app:app", {}) for spec in wave]
    assert sorted(stopped) == sorted(member.name for member in every)


def _one_of_each() -> Layout:
    return Layout(dedup=1, scheduler=1, dispatcher=1)


def test_a_pool_has_workers_with_names_and_a_flag_of_their_own() -> None:
    placed = members(Layout(pools=(Pool("slow", 2),)))
    names = [member.name for member in placed if member.stage == "worker"]
    specs = {s.name: s for wave in waves(placed, load_settings({}), "a:b", {}) for s in wave}
    assert names == ["worker-0", "worker-slow-0", "worker-slow-1"]
    assert "--pool" not in specs["worker-0"].argv
    flag = specs["worker-slow-1"].argv.index("--pool")
    assert specs["worker-slow-1"].argv[flag + 1] == "slow"
    instance = specs["worker-slow-1"].argv.index("--instance")
    assert specs["worker-slow-1"].argv[instance + 1] == "1", "its group names the pool already"
    assert len({member.label for member in placed if member.stage == "worker"}) == 3


def test_each_pool_has_slots_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--slots` is the default pool's: it must not shrink the others."""
    started = list[Layout]()
    monkeypatch.setattr(
        "streams.dev.run.run", lambda _settings, layout, _wanted: started.append(layout)
    )
    app = typer.Typer()
    app.command()(dev)
    words = ["--slots", "3", "--pool", "slow=1/2", "--pool", "wide=1"]
    assert CliRunner().invoke(app, words).exit_code == 0
    settings = load_settings({})
    slots = {}
    for member in members(started[0]):
        argv = process_spec(member, settings, "a:b", {}).argv
        slots[member.name] = argv[argv.index("--slots") + 1] if "--slots" in argv else None
    assert {name: n for name, n in slots.items() if name.startswith("worker")} == {
        "worker-0": "3",
        "worker-slow-0": "2",
        "worker-wide-0": None,
    }
    assert {n for name, n in slots.items() if not name.startswith("worker")} == {None}


@pytest.mark.parametrize("text", ["slow", "slow=", "slow=1/", "slow=1/0", "=1", "default=1"])
def test_a_pool_that_is_written_otherwise_is_refused(text: str) -> None:
    app = typer.Typer()
    app.command()(dev)
    refused = CliRunner().invoke(app, ["--pool", text])
    assert (refused.exit_code, "--pool" in refused.stderr) == (2, True)
