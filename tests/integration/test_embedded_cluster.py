"""Three embedded brokers as their users meet them: three copies, and one may be lost at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.conditions import eventually
from support.open_transactions import await_none_open, await_open, open_transactions
from typer.testing import CliRunner

from streams.broker.cluster import EmbeddedCluster
from streams.cli.topology import app as topology_app
from streams.settings import Settings
from streams.topology.cluster import admin_client, read_cluster
from streams.topology.load import load

pytestmark = [pytest.mark.broker, pytest.mark.fault]

CLI = "from streams.broker.commands import app; app()"
OPEN_SECONDS = 5
WIDTH = 16


def broker(*arguments: str) -> tuple[int, str]:
    """Exit code and output of `tidegate broker` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", CLI, *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def status(data_dir: Path) -> dict[str, Any]:
    _, told = broker("status", "--json", "--data-dir", str(data_dir))
    return dict(json.loads(told))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a detached cluster that the command started."""
    where = tmp_path_factory.mktemp("cluster")
    code, told = broker(
        "start", "--nodes", "3", "--detach", "--port", "0", "--data-dir", str(where)
    )
    try:
        assert code == 0, told
        yield where
    finally:
        code, told = broker("stop", "--data-dir", str(where))
        assert (code, told.startswith("broker stopped (pids ")) == (0, True)
        assert status(where)["running"] is False


@pytest.fixture
def settings(data_dir: Path) -> Settings:
    return Settings(bootstrap=status(data_dir)["bootstrap"])


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    """One record in a transaction."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "log_level": 0, "transactional.id": f"{topic}-writer",
    })  # fmt: skip
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    producer.commit_transaction(30)


def consume(bootstrap: str, topic: str, number: int) -> list[bytes | None]:
    """The topic's first records; their positions are committed."""
    reader = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False,
        "log_level": 0,
    })  # fmt: skip
    found: list[bytes | None] = []
    reader.assign([TopicPartition(topic, 0, 0)])

    def complete() -> bool:
        found.extend(message.value() for message in reader.consume(1, 0.2))
        return len(found) >= number

    eventually(complete, what=f"{number} records in {topic}")
    eventually(lambda: _committed(reader, topic, number), what="the positions are committed")
    reader.close()
    return found


def _committed(reader: Consumer, topic: str, offset: int) -> bool:
    try:
        reader.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    return True


def create(bootstrap: str, topic: str, partitions: int = 1) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(30)
    return admin


def test_apply_needs_no_consent_and_makes_three_copies_of_everything(settings: Settings) -> None:
    applied = CliRunner().invoke(topology_app, ["apply", "--bootstrap", settings.bootstrap])
    assert applied.exit_code == 0, applied.stderr
    create(settings.bootstrap, "orders")
    produce(settings.bootstrap, "orders", b"1")
    assert consume(settings.bootstrap, "orders", 1) == [b"1"]
    own = ("__transaction_state", "__consumer_offsets", "orders")
    names = [*load().topics, *own]
    found = read_cluster(admin_client(settings), names).topics
    copies = {name: found[name].replication for name in names}
    assert copies == dict.fromkeys(names, 3)
    needed = {name: found[name].config["min.insync.replicas"] for name in names}
    assert needed == dict.fromkeys(names, "2")
    unclean = {found[name].config["unclean.leader.election.enable"] for name in names}
    assert unclean == {"false"}


def test_a_killed_node_is_not_missed_and_comes_back(data_dir: Path, settings: Settings) -> None:
    admin = create(settings.bootstrap, "kept")
    produce(settings.bootstrap, "kept", b"1")
    before = status(data_dir)
    assert before["running"] is True
    (leader,) = (p.leader for p in admin.list_topics("kept").topics["kept"].partitions.values())
    pids = {node["node"]: node["pid"] for node in before["nodes"]}
    os.kill(pids[leader], signal.SIGKILL)

    produce(settings.bootstrap, "kept", b"2")
    assert consume(settings.bootstrap, "kept", 2)[:2] == [b"1", b"2"]
    assert status(data_dir)["running"] is False

    code, told = broker("start", "--detach", "--data-dir", str(data_dir))
    assert code == 0, told
    after = status(data_dir)
    same = {node["node"]: node["pid"] for node in after["nodes"] if node["node"] != leader}
    assert same == {node: pid for node, pid in pids.items() if node != leader}
    assert after["running"] is True
    assert sorted(after["bootstrap"].split(",")) == sorted(settings.bootstrap.split(","))
    code, told = broker("start", "--detach", "--data-dir", str(data_dir))
    assert code == 1
    assert "all nodes of" in told
    assert "--bootstrap" in told


def test_the_number_of_nodes_is_refused_with_a_clear_error(data_dir: Path, tmp_path: Path) -> None:
    code, told = broker("start", "--nodes", "2", "--data-dir", str(tmp_path))
    assert (code, told.startswith("error: --nodes 2: give --nodes 3")) == (2, True)
    code, told = broker("start", "--nodes", "1", "--data-dir", str(data_dir))
    assert (code, "it stays" in told) == (2, True)


def test_the_foreground_command_tells_of_a_lost_node_and_stops_the_others(tmp_path: Path) -> None:
    command = ["start", "--nodes", "3", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-u", "-c", CLI, *command], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("broker ready 127.0.0.1:")
            pids = {node["node"]: node["pid"] for node in status(tmp_path)["nodes"]}
            os.kill(pids[2], signal.SIGKILL)
            told = process.stdout.readline()
            assert told.startswith("node 2 ended with exit code 137; bring it back with: tidegate")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert all(node["pid"] is None for node in status(tmp_path)["nodes"])


@pytest.mark.chaos
@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_no_transaction_stays_open_over_the_end_of_all_nodes(tmp_path: Path, ending: str) -> None:
    """Each is aborted when its time is over, which no broker saw; what was committed is there."""
    with EmbeddedCluster(tmp_path) as cluster:
        create(cluster.bootstrap, "open", WIDTH)
        produce(cluster.bootstrap, "open", b"kept")
        producers = open_transactions(cluster.bootstrap, "open", WIDTH, OPEN_SECONDS)
        over = time.monotonic() + OPEN_SECONDS
        await_open(cluster.bootstrap, "open", WIDTH)
        cluster.kill() if ending == "kill" else cluster.stop()
        del producers
        eventually(lambda: time.monotonic() > over, what="their time is over, and no broker saw it")
        cluster.start()
        await_none_open(cluster.bootstrap, "open", WIDTH)
        assert consume(cluster.bootstrap, "open", 1) == [b"kept"]
