"""`tidegate topology describe --asyncapi`: the official parser takes it, and it says what is so."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from streams.cli.topology import app
from streams.serde.subjects import schema_name
from streams.topology.load import load

PARSER = Path(__file__).parents[2] / "support" / "asyncapi"
SLOW_POOL = """
pools: [{name: slow}]
topics: [{name: jobs.work.slow, partitions: 4, retention_days: 1}]
"""
ERROR = 0
"""The severity of a diagnostic that makes a document invalid."""


def document(*words: str, **environ: str) -> dict[str, Any]:
    told = CliRunner().invoke(app, ["describe", "--asyncapi", *words], env=environ)
    assert told.exit_code == 0, told.output
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def test_every_topic_with_a_schema_is_a_channel_with_its_address_and_retention() -> None:
    told = document(TIDEGATE_TOPIC_PREFIX="eu.", TIDEGATE_BOOTSTRAP="a:9092,b:9092")
    topology = load()
    assert told["channels"].keys() == {name for name in topology.topics if schema_name(name)}
    events = told["channels"]["events"]
    assert events["address"] == "eu.events"
    kafka = events["bindings"]["kafka"]
    assert (kafka["topic"], kafka["partitions"]) == ("eu.events", topology.partitions)
    assert kafka["topicConfiguration"] == {
        "cleanup.policy": ["delete"],
        "retention.ms": topology.topics["events"].retention_ms,
    }
    assert [server["host"] for server in told["servers"].values()] == ["a:9092", "b:9092"]
    payload = told["components"]["messages"]["envelope"]["payload"]
    assert payload["schema"]["fields"][0]["name"] == "fingerprint"


def test_the_operations_are_what_stages_read_and_write() -> None:
    operations = document()["operations"]
    assert {"dedup.send.events", "dispatcher.receive.events", "delivery.receive.jobs"} <= set(
        operations
    )
    assert "dispatcher.send.ledger" in operations
    assert "dispatcher.send.jobs.work.default" in operations
    assert "dedup.receive.events" not in operations


def test_groups_have_the_prefix_and_brokers_with_tls_are_secure() -> None:
    told = document(TIDEGATE_TOPIC_PREFIX="eu.", TIDEGATE_KAFKA_SECURITY_PROTOCOL="sasl_ssl")
    received = told["operations"]["dispatcher.receive.events"]
    assert received["bindings"]["kafka"]["groupId"]["enum"] == ["eu.dispatcher"]
    assert {server["protocol"] for server in told["servers"].values()} == {"kafka-secure"}
    plain = document(TIDEGATE_KAFKA_SECURITY_PROTOCOL="SASL_PLAINTEXT")["servers"]
    assert {server["protocol"] for server in plain.values()} == {"kafka"}


@pytest.fixture(scope="module")
def parser() -> Path:
    """The official parser, installed beside this Python from its lock."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("the official parser of AsyncAPI needs node and npm")
    folder = Path(sys.prefix) / "asyncapi-parser"
    locked = (PARSER / "package-lock.json").read_text()
    marked = folder / "installed-lock.json"
    with folder.with_suffix(".lock").open("w") as claimed:
        fcntl.flock(claimed, fcntl.LOCK_EX)  # another process of the tests may install it now
        if not marked.exists() or marked.read_text() != locked:
            shutil.copytree(PARSER, folder, dirs_exist_ok=True)
            words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            subprocess.run([npm, *words], cwd=folder, check=True, timeout=300)
            marked.write_text(locked)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("overlay", ["", SLOW_POOL])
def test_the_official_parser_accepts_the_document(
    parser: Path, tmp_path: Path, overlay: str
) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(overlay or "routes: []\n")
    told = tmp_path / "asyncapi.json"
    told.write_text(json.dumps(document("--topology", str(file), TIDEGATE_TOPIC_PREFIX="eu.")))
    run = subprocess.run(
        ["node", "validate.js", str(told)],
        cwd=parser,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = json.loads(run.stdout)
    assert [each for each in found["diagnostics"] if each["severity"] == ERROR] == []
    assert ("eu.jobs.work.slow" in found["channels"]) == bool(overlay)
    assert "eu.events" in found["channels"]
