"""`tidegate doctor` on a real broker: what works, what was broken on purpose, and who is silent."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from support.conditions import PATIENCE_SECONDS, eventually
from support.open_transactions import open_transactions
from support.positions import set_positions
from support.topics import led

from streams.broker.ports import pick_free
from streams.doctor import clock_view, cluster_view, group_view
from streams.doctor.finding import Report
from streams.doctor.run import examine
from streams.doctor.subject import subject
from streams.kafka.admin import admin_client
from streams.kafka.clients import consumer_config, producer_config
from streams.kafka.offsets import latest, read_offsets
from streams.process.boot_clock import boot_seconds
from streams.runtime.broker_clock import broker_clock
from streams.runtime.broker_clock_estimate import Estimate
from streams.runtime.broker_clock_file import clock_memory
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.settings import Settings, load_settings
from streams.topology.apply import apply
from streams.topology.load import load
from streams.topology.plan import Consent
from streams.vault.data_key import new_key_record
from streams.vault.key_encryption import local_vault

pytestmark = pytest.mark.broker

SMALL = "partitions: 1\n"
PREFIX = f"doctor-{uuid.uuid4().hex[:8]}."
PASSWORD = "hunter2-hunter2"
HOUR_MS = 3_600_000
"""It ends within them, whatever does not answer."""
FINE = (
    "cluster: reach",
    "topics: as declared",
    "topics: partitions",
    "topics: replicas",
    "stages: transactions",
    "clocks: broker",
    "clocks: this machine",
    "clocks: brokers",
)
Findings = dict[str, list[dict[str, Any]]]


class Installation:
    """Topics as declared on the run's broker, whose time a stage has read; nothing runs."""

    def __init__(self, kafka: Any, folder: Path) -> None:
        file = folder / "topology.yaml"
        file.write_text(SMALL)
        client = {
            f"TIDEGATE_KAFKA_{k.upper().replace('.', '_')}": str(v)
            for k, v in kafka.client_settings.items()
        }
        self.environ = {
            **client,
            "TIDEGATE_BOOTSTRAP": kafka.bootstrap,
            "TIDEGATE_TOPOLOGY": str(file),
            "TIDEGATE_TOPIC_PREFIX": PREFIX,
            "TIDEGATE_DATA_DIR": str(folder / "data"),
        }
        self.settings: Settings = load_settings(self.environ)
        self.topology = load(file)
        apply(self.topology, self.settings, Consent(unsafe=True))
        broker_clock(self.settings, "dedup").read()
        group = consumer_config(self.settings, "pipeline")
        with Consumer(group) as ran:
            set_positions(ran, [TopicPartition(f"{PREFIX}jobs", 0, 0)])

    def doctor(self, *flags: str, **environ: str) -> tuple[int, Findings, str]:
        """Its exit code, its findings by area and check, and all that it printed."""
        command = [sys.executable, "-m", "streams.cli", "doctor", "--json", *flags]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TIDEGATE_")}
        with (
            TemporaryFile("w+") as out,
            TemporaryFile("w+") as err,
            subprocess.Popen(
                command,
                stdout=out,
                stderr=err,
                env={**kept, **self.environ, **environ},
                cwd=self.settings.data_dir.parent,
            ) as process,
        ):
            try:
                eventually(lambda: process.poll() is not None, what="the doctor has ended")
            finally:
                process.kill()
            out.seek(0), err.seek(0)
            printed, told = out.read(), err.read()
        assert printed, f"the doctor ended with {process.returncode}: {told}"
        found: Findings = {}
        for each in json.loads(printed)["findings"]:
            found.setdefault(f"{each['area']}: {each['check']}", []).append(each)
        return process.returncode, found, printed + told


@pytest.fixture(scope="module")
def installation(kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    made = Installation(kafka, tmp_path_factory.mktemp("doctor"))
    yield made
    admin = admin_client(made.settings)
    left = [
        name
        for name in admin.list_topics(timeout=PATIENCE_SECONDS).topics
        if name.startswith(PREFIX)
    ]
    for future in admin.delete_topics(left).values():
        future.result()


def status(found: Findings, check: str) -> list[str]:
    return [each["status"] for each in found[check]]


def texts(found: Findings, check: str) -> str:
    return "\n".join(each["text"] for each in found[check])


def test_on_topics_as_declared_nothing_fails_and_nothing_is_changed(
    installation: Installation,
) -> None:
    before = state(installation)
    code, found, _ = installation.doctor()
    failed = [each for name in found for each in found[name] if each["status"] == "fail"]
    assert (code, failed) == (0, [])
    for check in FINE:
        assert status(found, check) == ["ok"], found[check]
    assert status(found, "cluster: brokers") == ["warn"]  # one node, and not the embedded one
    assert status(found, "stages: pipeline") == ["warn"]
    assert status(found, "operator: ready") == ["skipped"]
    assert state(installation) == before


def state(installation: Installation) -> Any:
    """Every topic with the end of each partition, every group, and every file of the directory."""
    admin = admin_client(installation.settings)
    topics = sorted(
        n for n in admin.list_topics(timeout=PATIENCE_SECONDS).topics if n.startswith(PREFIX)
    )
    places = [(name, 0) for name in topics]
    eventually(lambda: led(admin, places), what="each new partition has a leader that knows it")
    groups = admin.list_consumer_groups(request_timeout=10).result().valid
    ours = sorted(g.group_id for g in groups if g.group_id.startswith(PREFIX))
    files = sorted(
        (str(p), p.stat().st_mtime_ns) for p in installation.settings.data_dir.rglob("*")
    )
    return read_offsets(admin, "", places, latest(), 10), ours, files


def test_vault_keys_that_do_not_open_what_tenants_have_are_told(
    installation: Installation, tmp_path: Path
) -> None:
    ours, other = tmp_path / "ours.key", tmp_path / "other.key"
    for path in (ours, other):
        path.write_bytes(os.urandom(32))
        path.chmod(0o600)
    record = new_key_record(local_vault(ours.read_bytes()), "acme")
    producer = Producer(producer_config(installation.settings))
    producer.produce(
        f"{PREFIX}tenants",
        TENANT.encode(record),
        tenant_key(record.tenant_id, record.kind, record.id),
    )
    assert producer.flush(10) == 0

    code, found, _ = installation.doctor(TIDEGATE_VAULT_KEY_FILE=str(ours))
    assert (code, status(found, "settings: sealed secrets")) == (0, ["ok"])
    assert "open 1 sealed record " in texts(found, "settings: sealed secrets")
    code, found, _ = installation.doctor(TIDEGATE_VAULT_KEY_FILE=str(other))
    assert (code, status(found, "settings: sealed secrets")) == (3, ["fail"])
    told = f"do not open 1 of 1 sealed record: cannot open data key {record.id} of tenant acme"
    assert told in texts(found, "settings: sealed secrets")
    code, _, _ = installation.doctor(TIDEGATE_VAULT_KEY_FILE=f"{other},{ours}")
    assert code == 0
    _, found, _ = installation.doctor("--stage", "dedup", TIDEGATE_VAULT_KEY_FILE=str(other))
    assert "settings: sealed secrets" not in found


def test_whatever_is_broken_is_named_with_its_remedy(installation: Installation) -> None:
    admin = admin_client(installation.settings)
    admin.delete_topics([f"{PREFIX}rejections"])[f"{PREFIX}rejections"].result(10)
    configure(admin, "dlq", "retention.ms", "1000")
    producers = open_transactions(installation.settings.bootstrap, f"{PREFIX}schedule", 1, 60)
    now = boot_seconds() * 1000
    memory = clock_memory(installation.settings, "dedup")
    known = memory.recall(now)
    assert known is not None
    read_at = now - 60_000  # so it does not run, which would show that the clock is mended
    memory.keep(Estimate(known.low - HOUR_MS, known.high - HOUR_MS, read_at))
    code, found, _ = installation.doctor()
    for producer in producers:
        producer.abort_transaction(10)
    assert code == 3
    assert f"1 topic does not exist: {PREFIX}rejections" in texts(found, "topics: as declared")
    assert f"{PREFIX}dlq: retention.ms is 1000, not 2592000000" in texts(
        found, "topics: as declared"
    )
    assert "tidegate topology apply --bootstrap" in found["topics: as declared"][0]["remedy"]
    assert "readers of schedule-0 wait at offset 0" in texts(found, "stages: transactions")
    # the bounds of the estimate are read between two ticks, so each may be some seconds less
    assert 3500 < seconds_ahead(r"is or was ahead by (\d+)", texts(found, "clocks: broker")) <= 3600
    here = texts(found, "clocks: this machine")
    assert 3500 < seconds_ahead(r"(\d+) s ahead of the broker's", here) <= 3600


def seconds_ahead(pattern: str, text: str) -> int:
    told = re.search(pattern, text)
    assert told is not None, text
    return int(told[1])


def configure(admin: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ConfigResource.Type.TOPIC, PREFIX + topic, incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result(10)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers in this process get a second to answer."""
    for module in (cluster_view, group_view, clock_view):
        monkeypatch.setattr(module, "ANSWER_SECONDS", 1.0)


def examined(settings: Settings) -> tuple[Report, dict[str, str]]:
    """The report, and the status by area and check."""
    found = examine(subject(settings, "dedup", None))
    return found, {f"{each.area}: {each.check}": each.status for each in found.findings}


@pytest.mark.usefixtures("hasty")
def test_brokers_that_cannot_be_reached_have_an_exit_code_of_their_own(tmp_path: Path) -> None:
    address = f"127.0.0.1:{pick_free()}"
    found, statuses = examined(Settings(bootstrap=address, data_dir=tmp_path))
    assert found.exit_code == 1
    assert statuses["cluster: reach"] == "fail"
    assert statuses["topics: topics"] == "skipped"
    assert f"no broker answers at {address}" in str(found.findings)


@pytest.mark.usefixtures("hasty")
def test_of_brokers_that_tell_their_names_alone_all_else_is_skipped(tmp_path: Path) -> None:
    """librdkafka's own stand-in answers for metadata, offsets and groups, and for nothing else."""
    stand_in = {"test.mock.num.brokers": "3"}
    found, statuses = examined(Settings(kafka=stand_in, data_dir=tmp_path))
    assert found.reached
    assert statuses["cluster: brokers"] == "ok"
    for area in ("topics", "rights", "stages", "clocks"):
        assert {s for check, s in statuses.items() if check.startswith(area)} == {"skipped"}


def test_a_broker_that_accepts_and_never_answers_ends_in_time_and_no_secret_is_told(
    installation: Installation,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        code, found, printed = installation.doctor(
            "--bootstrap",
            address,
            "--url",
            f"http://me:{PASSWORD}@{address}",
            TIDEGATE_ADMIN_TOKEN=PASSWORD,
            TIDEGATE_KAFKA_SASL_PASSWORD=PASSWORD,
            TIDEGATE_KAFKA_SECURITY_PROTOCOL="SASL_PLAINTEXT",
            TIDEGATE_KAFKA_SASL_MECHANISM="PLAIN",
            TIDEGATE_KAFKA_SASL_USERNAME="me",
        )
    assert code == 1
    assert "no answer came within 5 s" in texts(found, "cluster: reach")
    assert status(found, "operator: ready") == ["skipped"]
    assert PASSWORD not in printed


def test_a_topology_that_is_not_valid_hides_nothing_of_the_brokers(
    installation: Installation, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text("windo_days: 3\n")
    code, found, _ = installation.doctor("--topology", str(file))
    assert code == 3
    assert status(found, "settings: topology") == ["fail"]
    assert status(found, "cluster: reach") == ["ok"]
    assert status(found, "topics: topics") == ["skipped"]


def test_a_setting_that_is_not_valid_has_the_exit_code_of_wrong_settings(
    installation: Installation,
) -> None:
    code, found, _ = installation.doctor(TIDEGATE_PORT="much")
    assert code == 2
    assert "setting 'port' is not valid" in texts(found, "settings: settings")
