"""The archive of Kafka's classes (JEP 310): with it a broker is ready in two thirds of the time.

    python -m streams.broker.class_archive      # what `make install` runs

A JVM maps the classes of the archive into its memory and need not read and verify them. It ignores
an archive of another JVM, of other jars or with a wrong checksum, and then loads the jars.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streams.broker.embedded import EmbeddedKafka
from streams.broker.jars import cache_dir, ensure_jars
from streams.broker.java import archive_command, class_archive, environment
from streams.errors import BrokerError

_SECONDS = 120.0
_TOPIC = "classes"


def ensure_class_archive() -> Path:
    """Make the archive (11 s, 69 MB) unless the cache has it.

    Raises:
        BrokerError: the broker whose classes it lists does not run, or the JVM cannot write it.
    """
    jars, archive = ensure_jars(), class_archive()
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=cache_dir()) as scratch:
        listed, made = Path(scratch, "classes.lst"), Path(scratch, archive.name)
        with _Listed(Path(scratch), listed) as broker:
            _use(broker.bootstrap)
        done = subprocess.run(  # noqa: S603 - our own Java
            archive_command(jars, listed, made),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment(),
            cwd=cache_dir(),
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode != 0 or not made.exists():
            log = (done.stdout + done.stderr).decode(errors="replace")[-500:]
            raise BrokerError(
                f"the JVM cannot write the archive of Kafka's classes in {cache_dir()}: {log}; "
                "free space there, or name another directory with TIDEGATE_CACHE"
            )
        made.replace(archive)
    return archive


class _Listed(EmbeddedKafka):
    """A broker whose JVM writes the names of the classes that it loaded."""

    def __init__(self, folder: Path, listed: Path) -> None:
        super().__init__(folder / "broker")
        self._listed = listed

    def _command(self, properties: Path) -> list[str]:
        java, *arguments = super()._command(properties)
        return [java, f"-XX:DumpLoadedClassList={self._listed}", *arguments]


def _use(bootstrap: str) -> None:
    """One transaction of a consumer group: the requests that every stage makes."""
    common: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 3}
    admin = AdminClient(common)
    admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(_SECONDS)
    producer = Producer(common | {"transactional.id": _TOPIC, "compression.type": "lz4"})
    consumer = Consumer(common | {"group.id": _TOPIC, "auto.offset.reset": "earliest"})
    consumer.subscribe([_TOPIC])
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    producer.produce(_TOPIC, b"value")
    producer.commit_transaction(_SECONDS)
    consumer.poll(_SECONDS)
    producer.begin_transaction()
    position = [TopicPartition(_TOPIC, 0, 1)]
    producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), _SECONDS)
    producer.commit_transaction(_SECONDS)
    consumer.close()


def main() -> None:
    """Fetch the jars, and make the archive where that can be done: a broker starts without it, too.

    Raises:
        BrokerError: the jars cannot be fetched.
    """
    ensure_jars()
    try:
        print(f"Kafka's classes are in {ensure_class_archive()}")
    except (BrokerError, KafkaException, OSError, subprocess.TimeoutExpired) as error:
        print(f"warning: Kafka will start slower, without an archive of its classes: {error}")


if __name__ == "__main__":
    main()
