"""The embedded broker as its users meet it: it starts, keeps, ends, and says what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.conditions import PATIENCE_SECONDS, eventually, exit_code
from support.open_transactions import await_none_open, open_partitions, open_transactions
from support.secured import BrokerSecurity, ConfiguredKafka, self_signed
from typer.testing import CliRunner

from streams.broker import jars
from streams.broker.embedded import EmbeddedKafka
from streams.broker.status import is_broker, read_status
from streams.cli.broker import app
from streams.errors import BrokerError

pytestmark = pytest.mark.broker

OWNER = """
import sys
from pathlib import Path
from streams.broker.embedded import EmbeddedKafka
kafka = EmbeddedKafka(Path(sys.argv[1])).start()
print(kafka.pid, kafka._process._reaper.pid, flush=True)
sys.stdin.read()
"""
CLI = "from streams.cli.broker import app; app()"


@pytest.fixture(scope="module")
def formatted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that has held a broker; copied, it spares a test the first format."""
    directory = tmp_path_factory.mktemp("formatted")
    with EmbeddedKafka(directory) as kafka:
        create_topic(kafka)
    return directory


@pytest.fixture
def data_dir(formatted: Path, tmp_path: Path) -> Path:
    shutil.copytree(formatted, tmp_path / "data")
    (tmp_path / "data" / "kafka" / "instance.json").unlink()  # or all would share one port
    return tmp_path / "data"


def create_topic(kafka: EmbeddedKafka, name: str = "orders", partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, **kafka.client_settings})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)


def produce(kafka: EmbeddedKafka, value: bytes, topic: str = "orders") -> None:
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "acks": "all", **kafka.client_settings}
    )
    refused: list[Any] = []
    producer.produce(topic, value, on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(20) == 0
    assert refused == [None]


def consume(bootstrap: str, topic: str = "orders", **settings: str) -> list[bytes | None]:
    """The topic's first records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([topic])
    try:
        first = eventually(lambda: consumer.consume(1, 0.2), what=f"a record in {topic}")
        return [message.value() for message in first]
    finally:
        consumer.close()


@contextmanager
def owner_process(data_dir: Path) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """Another Python process that owns a broker; yields it, the JVM's and the reaper's pid."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        jvm, reaper = map(int, process.stdout.readline().split())
        try:
            yield process, jvm, reaper
        finally:
            process.kill()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_transaction_is_committed_and_read_back(
    kafka: Any, new_topic: Callable[..., str]
) -> None:
    """A record produced in a transaction is there for a read_committed consumer."""
    topic = new_topic(partitions=2)
    producer = Producer(
        kafka.client(**{"transactional.id": topic, "message.max.bytes": 2 * 1024 * 1024})
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"x" * 1024 * 1024)
    producer.commit_transaction(20)

    (value,) = consume(kafka.bootstrap, topic, **kafka.client_settings)
    assert value == b"x" * 1024 * 1024


def test_topics_are_never_created_by_accident(kafka: Any, new_topic: Callable[..., str]) -> None:
    known = new_topic()
    admin = AdminClient(kafka.client())
    admin.list_topics(f"{known}-misspelt", timeout=PATIENCE_SECONDS)
    assert f"{known}-misspelt" not in admin.list_topics(timeout=PATIENCE_SECONDS).topics


def test_a_killed_broker_comes_back_at_its_address_with_its_data(data_dir: Path) -> None:
    broker = EmbeddedKafka(data_dir).start()
    address, pid = broker.bootstrap, broker.pid
    assert pid is not None
    produce(broker, b"acknowledged")

    broker.kill()
    assert gone(pid)
    assert read_status(data_dir).running is False

    with broker.start():
        assert broker.bootstrap == address
        assert broker.pid != pid
        assert consume(address) == [b"acknowledged"]


OPEN_SECONDS = 5


def test_no_transaction_stays_open_over_a_crash(data_dir: Path) -> None:
    """Each is aborted when its time is over, though its markers were due while nobody led."""
    width = 16
    broker = EmbeddedKafka(data_dir).start()
    create_topic(broker, "open", width)
    producers = open_transactions(broker.bootstrap, "open", width, OPEN_SECONDS)
    over = time.monotonic() + OPEN_SECONDS
    assert open_partitions(broker.bootstrap, "open", width) == list(range(width))
    broker.kill()
    del producers
    eventually(lambda: time.monotonic() > over, what="their time is over, and no broker saw it")
    with broker.start():
        await_none_open(broker.bootstrap, "open", width)


def test_another_object_finds_the_same_address_without_network(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedKafka(data_dir) as first:
        address = first.bootstrap

    def no_network(_: Path) -> None:
        raise AssertionError("asked for the network")

    monkeypatch.setattr(jars, "_maven", no_network)
    with EmbeddedKafka(data_dir) as second:
        assert second.bootstrap == address
        assert read_status(data_dir).as_json() == json.dumps(
            {
                "running": True,
                "bootstrap": address,
                "pid": second.pid,
                "version": jars.kafka_version(),
            }
        )


def test_sigkill_of_the_owner_ends_the_jvm(data_dir: Path) -> None:
    with owner_process(data_dir) as (owner, jvm, reaper):
        assert is_broker(jvm, data_dir)
        assert os.getsid(jvm) != os.getsid(owner.pid), "Ctrl-C in the terminal would reach it"
        owner.kill()
        eventually(lambda: gone(jvm), what="the JVM ends after its owner")
        eventually(lambda: gone(reaper), what="the reaper ends after the JVM")


@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
def test_sigkill_of_the_reaper_ends_the_jvm(data_dir: Path) -> None:
    with owner_process(data_dir) as (_, jvm, reaper):
        os.kill(reaper, signal.SIGKILL)
        eventually(lambda: gone(jvm), what="the JVM ends with its reaper")


def test_a_directory_in_use_is_refused_and_names_the_live_broker(data_dir: Path) -> None:
    with (
        EmbeddedKafka(data_dir) as broker,
        pytest.raises(BrokerError, match=rf"in use .*pid {broker.pid}, {broker.bootstrap}.*stop"),
    ):
        EmbeddedKafka(data_dir).start()


def test_a_taken_port_is_named_with_its_holder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(BrokerError, match=rf"port {port} .*--port") as refused:
            EmbeddedKafka(tmp_path, port).start()
    if sys.platform == "linux":
        assert f"pid {os.getpid()}" in str(refused.value)


@pytest.mark.parametrize("name", ["*.log", "quorum-state", "leader-epoch-checkpoint"])
def test_garbage_in_the_metadata_log_is_called_damage(data_dir: Path, name: str) -> None:
    """Found by us or in Kafka's own words, it ends in one message that tells what to do."""
    for file in (data_dir / "kafka" / "data" / "__cluster_metadata-0").glob(name):
        file.write_bytes(b"\xff" * file.stat().st_size)
    with pytest.raises(BrokerError, match=r"damaged.*restore .* or move it away"):
        EmbeddedKafka(data_dir).start(timeout=20)
    assert read_status(data_dir).pid is None


def test_a_refused_setting_is_named(data_dir: Path) -> None:
    with pytest.raises(BrokerError, match=r"num\.io\.threads.*report it"):
        ConfiguredKafka(data_dir, extra={"num.io.threads": "many"}).start()


def test_secured_listener_takes_only_clients_with_the_password(
    data_dir: Path, security: BrokerSecurity
) -> None:
    with ConfiguredKafka(data_dir, security=security) as broker:
        produce(broker, b"secret")
        assert consume(broker.bootstrap, **broker.client_settings) == [b"secret"]
        mode = (data_dir / "kafka" / "server.properties").stat().st_mode
        assert mode & 0o777 == 0o600
        assert security.password not in Path(f"/proc/{broker.pid}/cmdline").read_text()

        wrong = {**broker.client_settings, "sasl.password": "wrong", "log_level": "0"}
        with pytest.raises(KafkaException):
            AdminClient({"bootstrap.servers": broker.bootstrap, **wrong}).list_topics(timeout=2)


def test_detached_start_status_and_stop(data_dir: Path) -> None:
    """Each command in a process of its own: the broker outlives the one that started it."""
    where = ["--data-dir", str(data_dir)]
    started = subprocess.run(
        [sys.executable, "-c", CLI, "start", "--detach", "--port", "0", *where],
        capture_output=True,
        text=True,
        check=True,
    )
    runner = CliRunner()
    try:
        shown = runner.invoke(app, ["status", *where, "--json"])
        found = json.loads(shown.stdout)
        assert shown.exit_code == 0
        assert set(found) == {"running", "bootstrap", "pid", "version"}
        assert found["bootstrap"] in started.stdout
        assert is_broker(found["pid"], data_dir)
    finally:
        assert runner.invoke(app, ["stop", *where]).exit_code == 0
    eventually(lambda: gone(found["pid"]), what="the reaper has reaped the JVM")
    after = runner.invoke(app, ["status", *where, "--json"])
    assert after.exit_code == 1
    assert json.loads(after.stdout) == dict.fromkeys(found) | {"running": False}


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_foreground_command_stops_the_broker_when_told(
    data_dir: Path, ending: signal.Signals
) -> None:
    command = [sys.executable, "-c", CLI, "start", "--port", "0", "--data-dir", str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("broker ready 127.0.0.1:")
        pid = read_status(data_dir).pid
        process.send_signal(ending)
        try:
            assert exit_code(process) == 0
        finally:
            process.kill()
    assert pid is not None
    assert gone(pid)


def test_command_errors_are_one_line_without_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shown = CliRunner().invoke(app, ["start", "--data-dir", str(tmp_path / "file")])
    assert shown.exit_code == 1
    assert shown.stderr.startswith("error: cannot use the data directory")
    assert "Traceback" not in shown.output


@pytest.fixture
def security(tmp_path: Path) -> BrokerSecurity:
    return self_signed(tmp_path)
