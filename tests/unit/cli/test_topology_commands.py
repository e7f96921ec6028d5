"""`tidegate topology ...` without a cluster: exit codes, tables, JSON, Mermaid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streams.cli import topology as commands
from streams.cli.topology import app
from streams.errors import KafkaUnavailable
from streams.topology.load import load

INVALID = "windo_days: 3\nlimits: [{name: a, scope: global, concurrency: 0}]\n"
ROUTED = (
    "routes: [{match: {source: zendesk, event_type: 'ticket.[ab]*'}, job: draft}]\n"
    "limits:\n"
    "  - {name: each, scope: tenant, match: '*', concurrency: 12}\n"
    "  - {name: refunds, scope: job_type, match: refund, concurrency: 5}\n"
    "  - {name: apart, scope: pool, match: default, concurrency: 5, shared: false}\n"
)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the environment nor a file of the working directory has a say."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIDEGATE_TOPOLOGY", raising=False)
    monkeypatch.delenv("TIDEGATE_BOOTSTRAP", raising=False)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.yaml"


def test_a_valid_file_says_what_it_declares(file: Path) -> None:
    file.write_text(ROUTED)
    told = run("validate", "--topology", str(file))
    assert (told.exit_code, told.stdout) == (
        0,
        "valid (topics: 36, stages: 5, routes: 1, limits: 3)\n",
    )


def test_an_invalid_file_exits_2_with_every_problem_on_standard_error(file: Path) -> None:
    file.write_text(INVALID)
    told = run("validate", "--topology", str(file))
    assert told.exit_code == 2
    assert told.stdout == ""
    assert sorted(line.split(": ")[1] for line in told.stderr.splitlines()) == [
        "limits[a].concurrency",
        "windo_days",
    ]


def test_an_invalid_file_as_json(file: Path) -> None:
    file.write_text(INVALID)
    told = run("validate", "--json", "--topology", str(file))
    answer = json.loads(told.stdout)
    assert told.exit_code == 2
    assert (answer["valid"], len(answer["errors"])) == (False, 2)


@pytest.mark.parametrize("command", ["plan", "apply", "describe"])
def test_no_command_goes_on_with_an_invalid_file(file: Path, command: str) -> None:
    file.write_text(INVALID)
    assert run(command, "--topology", str(file)).exit_code == 2


def test_a_setting_can_name_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(INVALID)
    monkeypatch.setenv("TIDEGATE_TOPOLOGY", str(file))
    assert run("validate").exit_code == 2


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_cluster_that_does_not_answer_is_named(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.topology.cluster.TIMEOUT_SECONDS", 0.5)
    told = run(command, "--bootstrap", "127.0.0.1:1")
    assert told.exit_code == 1
    assert "no Kafka broker answers" in told.stderr
    assert "--bootstrap" in told.stderr


def test_describe_shows_globs_as_written_and_how_far_a_cap_reaches(file: Path) -> None:
    file.write_text(ROUTED)
    shown = run("describe", "--topology", str(file)).stdout
    assert "ticket.[ab]*" in shown
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert "for each matching tenant, overall" in lines["each"]
    assert "overall" in lines["refunds"]
    assert "for each" not in lines["refunds"]
    assert "inside each partition" in lines["apart"]


def test_describe_fits_80_characters_with_every_name_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")  # rich: standard output counts as a terminal
    lines = [line.rstrip() for line in plain(run("describe").stdout)]
    assert max(map(len, lines)) <= 80
    firsts = {line.split()[0] for line in lines if line}
    assert {topic for topic in load().topics if topic not in firsts} == set()
    assert "…" not in "".join(lines)
    assert [line for line in lines if line.startswith("none")] == ["none"] * 10


def test_describe_shows_what_a_route_cancels(file: Path) -> None:
    file.write_text(
        "routes:\n"
        "  - match: {source: a, event_type: solved}\n"
        "    cancels: {job: follow_up, by: subject}\n"
        "  - {match: {source: b}, job: follow_up}\n"
    )
    shown = run("describe", "--topology", str(file)).stdout
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert "1 a solved none - follow_up by subject" in rows
    assert "2 b * follow_up webhook -" in rows


def test_describe_shows_what_a_job_type_waits_for(file: Path) -> None:
    file.write_text(
        "job_types:\n"
        "  - {name: follow_up, waits_for: [{event_type: answered}, {source: b}]}\n"
        "  - {name: refund}\n"
    )
    shown = run("describe", "--topology", str(file)).stdout
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert "follow_up default handler's handler's * answered" in rows
    assert "b *" in rows
    assert "refund default handler's handler's -" in rows


def test_describe_shows_flow_control_and_a_priority_by_a_value(file: Path) -> None:
    file.write_text(
        "routes:\n"
        "  - match: {source: a}\n"
        "    job: sum\n"
        "    debounce: {by: subject, seconds: 5, max_seconds: 60}\n"
        "    expires_after_seconds: 90\n"
        "    priority: {by: attributes.plan, free: batch, else: webhook}\n"
        "job_types:\n"
        "  - {name: load, batch: {size: 100, seconds: 2}}\n"
        "  - {name: sync, singleton: {by: subject, keep: queue_one}}\n"
    )
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["describe", "--topology", str(file)])
    rows = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert "1 a * sum by attributes.plan: free batch, else webhook" in rows
    assert (
        "sum of a * debounce subject the newest runs after 5 s without another, 60 s at most"
        in rows
    )
    assert "sum of a * expires - after 90 s" in rows
    assert "load batch tenant and type one job for 100 events, after 2 s for fewer" in rows
    assert "sync singleton subject keeps queue_one" in rows


def plain(shown: str) -> list[str]:
    """Lines without the terminal's escape sequences."""
    return re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()


def test_describe_as_json_has_every_declared_value(file: Path) -> None:
    file.write_text(ROUTED)
    declared = json.loads(run("describe", "--json", "--topology", str(file)).stdout)
    assert [stage["name"] for stage in declared["stages"]] == [
        "dedup",
        "scheduler",
        "dispatcher",
        "delivery",
        "analytics",
    ]
    assert declared["routes"][0] == {
        "source": "zendesk",
        "event_type": "ticket.[ab]*",
        "job": "draft",
        "priority": "webhook",
        "cancels": None,
        "draft": False,
        "priority_by": None,
        "debounce": None,
        "singleton": None,
        "batch": None,
        "expires_after_seconds": None,
    }
    assert declared["topics"][1]["retention_ms"] == 14 * 86_400_000
    holds = [limit["holds"] for limit in declared["limits"]]
    assert holds == ["for each matching tenant, overall", "overall", "inside each partition"]


def test_the_graph_joins_stages_and_topics_as_declared() -> None:
    lines = [line.strip() for line in run("describe", "--mermaid").stdout.splitlines()]
    assert lines[0] == "flowchart LR"
    assert "topic_events_received --> stage_dedup" in lines
    assert "stage_dedup --> topic_events" in lines
    assert "stage_dispatcher --> topic_jobs_held" in lines
    assert "stage_dispatcher -. ledger .-> topic_ledger" in lines
    assert "class topic_ledger changelog" in lines


@pytest.mark.parametrize(
    ("flags", "environment", "tried"),
    [
        ([], None, "127.0.0.1:9333"),
        ([], "127.0.0.1:9444", "127.0.0.1:9444"),
        (["--bootstrap", "127.0.0.1:9555"], "127.0.0.1:9444", "127.0.0.1:9555"),
    ],
)
def test_plan_asks_the_running_dev_unless_told_otherwise_and_names_the_address(
    flags: list[str],
    environment: str | None,
    tried: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    (tmp_path / ".tidegate").mkdir()
    (tmp_path / ".tidegate/dev.json").write_text('{"bootstrap": "127.0.0.1:9333"}')
    if environment:
        monkeypatch.setenv("TIDEGATE_BOOTSTRAP", environment)

    def away(*_: object) -> None:
        raise KafkaUnavailable("no broker answers")

    monkeypatch.setattr(commands, "make_plan", away)
    told = run("plan", *flags)
    assert (told.exit_code, told.stderr) == (1, f"{tried}: no broker answers\n")


def test_a_warning_goes_to_standard_error_and_into_the_json_with_exit_code_0(file: Path) -> None:
    file.write_text(ROUTED)
    told = run("validate", "--topology", str(file))
    assert (told.exit_code, told.stdout.count("\n")) == (0, 1)
    assert told.stderr.startswith(f"warning: {file}:4: limits[refunds].match: 'refund' matches no")
    as_json = json.loads(run("validate", "--json", "--topology", str(file)).stdout)
    assert (as_json["valid"], as_json["errors"], len(as_json["warnings"])) == (True, [], 1)


SMALL = ("size", "--events", "100", "--jobs", "100")


def test_a_size_fits_a_terminal_of_100_columns_and_names_its_units() -> None:
    told = run("size", "--events", "1e6", "--jobs", "1e6", "--largest-tenant", "0.001")
    tables = told.stdout.partition("Processes, planned")[2].partition("\nwarning")[0]
    assert told.exit_code == 0
    assert max(len(line.rstrip()) for line in tables.splitlines()) <= 100
    for unit in ("cores busy,", "memory MiB,", "disk GB,", "written kB/s,"):
        assert unit in told.stdout


def test_a_size_as_json_has_the_numbers_of_the_tables() -> None:
    found = json.loads(run(*SMALL, "--json").stdout)
    assert found["demand"]["events"] == 100
    assert {each["name"] for each in found["stages"]} >= {"ingress", "pipeline", "operator"}
    one, all_ = found["topics"][0]["disk"], found["topics"][0]["disk_of_all_replicas"]
    assert all_ == 3 * one


def test_an_explained_size_has_a_formula_for_each_stage_and_topic() -> None:
    explained, plain = run(*SMALL, "--explain").stdout, run(*SMALL).stdout
    for name in ("ingress", "pipeline", "worker, pool default", "operator", "payloads", "jobs"):
        assert f"\n  {name}: " in explained
        assert f"\n  {name}: " not in plain


def test_the_stages_apart_have_sizes_of_their_own() -> None:
    found = json.loads(run(*SMALL, "--apart", "--json").stdout)
    names = {each["name"] for each in found["stages"]}
    assert {"dedup", "scheduler", "dispatcher"} <= names
    assert "pipeline" not in names


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--events", "-5", "--jobs", "nan"), "--events -5: give a number from 0 to"),
        (("--events", "5", "--jobs", "1", "--window-days", "8"), "set retention_days of"),
        (("--events", "5", "--jobs", "1", "--pool", "slow=9/1"), "more jobs a second than --jobs"),
    ],
)
def test_a_bad_size_exits_2_and_says_what_to_give(arguments: tuple[str, ...], why: str) -> None:
    told = run("size", *arguments)
    assert (told.exit_code, told.stdout) == (2, "")
    assert why in told.stderr
    assert json.loads(run("size", *arguments, "--json").stdout)["valid"] is False


@pytest.mark.parametrize(
    "pool", ["slow", "slow=", "slow=1", "slow=1/2/3/4", "slow=a/b", "[/x]=1/1"]
)
def test_a_pool_of_another_form_is_refused_with_an_example(pool: str) -> None:
    told = run("size", "--events", "5", "--jobs", "5", "--pool", pool)
    assert told.exit_code == 2
    assert "slow=5/60/20" in told.stderr


@pytest.mark.parametrize(
    ("given", "user"),
    [((), "tidegate-staging-ingress"), (("--user-prefix", "tide:"), "tide:ingress")],
)
def test_users_are_named_after_the_topic_prefix_unless_told(
    given: tuple[str, ...], user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_TOPIC_PREFIX", "staging.")
    told = json.loads(run("describe", "--acls", "--json", *given).stdout)
    assert [each["user"] for each in told["users"] if each["process"] == "ingress"] == [user]
