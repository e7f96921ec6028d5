"""`tidegate topology describe --asyncapi`: the official parser takes it, and it says what is so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.asyncapi_parser import parsed
from typer.testing import CliRunner

from streams.cli.topology import app
from streams.serde.subjects import schema_name
from streams.topology.load import load

OVERLAY = """
topics: [{name: rejections, retention_days: 30}]
"""


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
    assert "dispatcher.send.jobs.held" in operations
    assert "dedup.receive.events" not in operations


def test_groups_have_the_prefix_and_brokers_with_tls_are_secure() -> None:
    told = document(TIDEGATE_TOPIC_PREFIX="eu.", TIDEGATE_KAFKA_SECURITY_PROTOCOL="sasl_ssl")
    received = told["operations"]["dispatcher.receive.events"]
    assert received["bindings"]["kafka"]["groupId"]["enum"] == ["eu.dispatcher"]
    assert {server["protocol"] for server in told["servers"].values()} == {"kafka-secure"}
    plain = document(TIDEGATE_KAFKA_SECURITY_PROTOCOL="SASL_PLAINTEXT")["servers"]
    assert {server["protocol"] for server in plain.values()} == {"kafka"}


@pytest.mark.long
@pytest.mark.parametrize("overlay", ["", OVERLAY])
def test_the_official_parser_accepts_the_document(tmp_path: Path, overlay: str) -> None:
    file = tmp_path / "topology.yaml"
    file.write_text(overlay or "routes: []\n")
    found = parsed(document("--topology", str(file), TIDEGATE_TOPIC_PREFIX="eu."), tmp_path)
    assert found.errors == []
    assert "eu.events" in found.channels
