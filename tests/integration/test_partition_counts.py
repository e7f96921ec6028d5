"""A process that writes tenants' records ends if a topic has other than its declared partitions."""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from support.conditions import PATIENCE_SECONDS
from support.kafka_under_test import KafkaUnderTest
from support.topics import create_topics

from streams.broker.ports import pick_free
from streams.kafka.admin import admin_client
from streams.settings import Settings

pytestmark = pytest.mark.broker

TIDEGATE = Path(sys.executable).with_name("tidegate")


@pytest.mark.parametrize(
    ("command", "topic"), [("ingress", "events.received"), ("operator", "jobs.commands")]
)
def test_a_process_whose_topic_has_another_number_of_partitions_ends_and_writes_nothing(
    kafka: KafkaUnderTest, tmp_path: Path, command: str, topic: str
) -> None:
    prefix = f"t{uuid.uuid4().hex[:8]}."
    settings = Settings(bootstrap=kafka.bootstrap, kafka=kafka.client_settings, topic_prefix=prefix)
    wanted = [NewTopic(f"{prefix}tenants", 4, 1), NewTopic(f"{prefix}{topic}", 6, 1)]
    create_topics(kafka.bootstrap, admin_client(settings), wanted)
    (tmp_path / "vault.key").write_bytes(b"k" * 32)
    passed = {
        f"TIDEGATE_KAFKA_{n.upper().replace('.', '_')}": v for n, v in kafka.client_settings.items()
    }
    ended = subprocess.run(
        [TIDEGATE, command, "--port", str(pick_free()), "--data-dir", tmp_path],
        env={
            **passed,
            "TIDEGATE_BOOTSTRAP": kafka.bootstrap,
            "TIDEGATE_TOPIC_PREFIX": prefix,
            "TIDEGATE_VAULT_KEY_FILE": str(tmp_path / "vault.key"),
            "TIDEGATE_ADMIN_TOKEN": "an-operator-s-token",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 2
    told = f"error: {command}: {topic} has 6 partitions, topology.yaml says 4: "
    assert told in ended.stderr
    assert "Traceback" not in ended.stderr
