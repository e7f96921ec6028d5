"""The root of the command line: what it imports, and how it tells errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import structlog
from confluent_kafka import Consumer

from streams.cli import main as cli
from streams.cli.ends import errors_shown
from streams.errors import ConfigError, TidegateError
from streams.serde import job_states
from streams.stages import StageProcess

HEAVY = {"aiohttp", "confluent_kafka", "rocksdict", "cryptography", "fastavro", "pydantic"}


def tidegate(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "streams.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
    )


Raising = Callable[[BaseException], int]
Help = Callable[..., str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Help:
    """What a command's --help prints, 300 columns wide, in this process."""

    def run(*command: str) -> str:
        monkeypatch.setenv("COLUMNS", "300")
        monkeypatch.setattr(sys, "argv", ["tidegate", *command, "--help"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert not ended.value.code
        return capsys.readouterr().out

    return run


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch) -> Raising:
    """Make a stage raise, and run its command."""

    def run(error: BaseException) -> int:
        def fail(stage: object, settings: object, topology: object) -> None:
            raise error

        monkeypatch.setattr(StageProcess, "run", fail)
        monkeypatch.setattr(cli, "_prepare", lambda *_, **__: (None, None))
        monkeypatch.setattr(
            "streams.topology.rights_watch.rights_watched", lambda *_: nullcontext()
        )
        monkeypatch.setattr("streams.process.shutdown.end_at_once", sys.exit)
        monkeypatch.setattr(sys, "argv", ["tidegate", "dedup"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return int(ended.value.code or 0)

    return run


@pytest.mark.parametrize(
    ("error", "code"),
    [(TidegateError("broke: mend it"), 1), (ConfigError("bad key: set it"), 2)],
)
def test_errors_of_our_own_are_one_line_and_an_exit_code(
    raising: Raising, capsys: pytest.CaptureFixture[str], error: TidegateError, code: int
) -> None:
    assert raising(error) == code
    assert capsys.readouterr().err == f"error: {error}\n"


def test_an_interrupt_is_130_without_a_word(
    raising: Raising, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raising(KeyboardInterrupt()) == 130
    assert "Traceback" not in capsys.readouterr().err


class _Interrupting:
    """A value of a client's configuration during whose conversion to text Ctrl-C comes."""

    def __str__(self) -> str:
        signal.raise_signal(signal.SIGINT)
        return "1000"


def test_an_interrupt_while_a_client_of_kafka_is_made_is_one_as_well(
    raising: Raising, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"group.id": "g", "socket.timeout.ms": _Interrupting()}
    with pytest.raises(TypeError, match="expected configuration property") as swallowed:
        Consumer(config)
    assert raising(swallowed.value) == 130
    assert "Traceback" not in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt), errors_shown():
        Consumer(config)
    with pytest.raises(TypeError, match="another"), errors_shown():
        raise TypeError("another")


def test_every_command_of_the_contract_is_listed(shown: Help) -> None:
    listed = shown()
    for name in (
        "dev",
        "demo",
        "broker",
        "topology",
        "jobs",
        "dlq",
        "ingress",
        "dedup",
        "scheduler",
        "dispatcher",
        "worker",
        "operator",
    ):
        assert f" {name} " in listed


@pytest.mark.parametrize("stage", ["ingress", "dedup", "dispatcher", "worker", "operator"])
def test_a_stage_takes_the_common_options(shown: Help, stage: str) -> None:
    text = shown(stage)
    port = "--port" if stage in ("ingress", "operator") else "--probe-port"
    for option in ("--bootstrap", "--topology", "--data-dir", "--instance", "--host", port):
        assert option in text


@pytest.mark.parametrize(
    ("stage", "needed"),
    [
        ("ingress", {"TIDEGATE_VAULT_KEY_FILE"}),
        ("dedup", set()),
        ("dispatcher", {"TIDEGATE_VAULT_KEY_FILE"}),
        ("worker", {"TIDEGATE_LINK", "TIDEGATE_LINK_TOKEN"}),
        ("operator", {"TIDEGATE_VAULT_KEY_FILE", "TIDEGATE_ADMIN_TOKEN"}),
    ],
)
def test_a_stage_names_the_keys_that_it_needs(shown: Help, stage: str, needed: set[str]) -> None:
    assert set(re.findall(r"TIDEGATE_\w+", shown(stage))) == needed


def test_the_states_that_jobs_are_listed_by_are_named(shown: Help) -> None:
    told = shown("jobs", "list")
    assert all(status in told for status in job_states.NAMES)


def test_nothing_is_offered_that_has_no_effect_yet(shown: Help) -> None:
    """Nothing is listed by its workflow."""
    assert "--workflow" not in shown("jobs", "submit")


def test_asking_for_one_command_imports_no_other() -> None:
    code = (
        "import sys, json; from streams.cli.main import application;"
        "application(['dedup', '--help']);"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith("streams.broker")}


def test_a_near_miss_is_suggested() -> None:
    done = tidegate("brokr")
    assert done.returncode == 2
    assert "broker" in done.stderr


def test_a_wrong_setting_is_exit_code_2_and_named(tmp_path: Path) -> None:
    done = tidegate("dedup", "--probe-port", "99999999")
    assert (done.returncode, "probe_port" in done.stderr) == (2, True)
    assert "Traceback" not in done.stderr


def test_a_parent_that_is_none_is_told() -> None:
    done = tidegate("dedup", TIDEGATE_PARENT_FD="77")
    assert (done.returncode, "TIDEGATE_PARENT_FD" in done.stderr) == (2, True)


def test_the_version_is_told() -> None:
    done = tidegate("--version")
    assert (done.returncode, done.stdout.strip()[0].isdigit()) == (0, True)


@pytest.mark.parametrize(("stage", "told"), [("pipeline", 1), ("dispatcher", 1), ("ingress", 0)])
def test_a_stage_that_applies_limits_logs_what_is_doubtful_in_the_topology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, told: int
) -> None:
    for done_to_the_process in (
        "streams.telemetry.configure_logging",
        "streams.dev.parent_death.end_with_parent",
    ):
        monkeypatch.setattr(done_to_the_process, lambda *_, **__: None)
    file = tmp_path / "mine.yaml"
    file.write_text("limits: [{name: cap, scope: job_type, match: draft, concurrency: 1}]\n")
    with structlog.testing.capture_logs() as logged:
        cli._prepare(stage, topology=file)
    details = [each["detail"] for each in logged]
    assert len(details) == told
    assert all("limits[cap].match: 'draft' matches no type" in detail for detail in details)


def test_a_command_runs_also_if_standard_error_is_closed() -> None:
    command = 'exec "$0" -m streams.cli --version 2>&-'
    done = subprocess.run(
        ["/bin/sh", "-c", command, sys.executable], stdout=subprocess.PIPE, check=False, timeout=60
    )
    assert (done.returncode, bool(done.stdout.strip())) == (0, True)


def test_a_library_that_ends_the_process_leaves_the_stacks_of_its_threads() -> None:
    """A signal such as SIGSEGV says nothing of where it came from."""
    code = (
        "import os, signal, streams.cli.main as cli\n"
        "cli.application = lambda _: lambda: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "cli.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == -signal.SIGSEGV
    assert "in main" in done.stderr
