"""Kafka's last words become one message that names the cause and the next step."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from streams.broker.diagnosis import Attempt, explain, read_since, relevant

ROOT = Path("/data/.tidegate")


def message(log: str, port: int = 1) -> str:
    return str(explain(Attempt(ROOT, port, log), "Kafka ended with exit code 1"))


@pytest.mark.parametrize(
    ("log", "cause", "remedy"),
    [
        ("ERROR x\njava.io.IOException: No space left on device\n", "no disk space", "free some"),
        (
            "Exception in thread main org.apache.kafka.common.KafkaException: Failed to acquire "
            "lock on file .lock in /d. A Kafka instance in another process is using it",
            "another Kafka uses",
            "--data-dir",
        ),
        ("java.lang.OutOfMemoryError: Java heap space", "not enough memory", "free some"),
        ("Invalid maximum heap size: -Xmx0m", "not enough memory", "free some"),
        ("java.nio.file.AccessDeniedException: /d/meta.properties", "may not read", "chown"),
        (
            "org.apache.kafka.common.config.ConfigException: Invalid value x for num.io.threads",
            "num.io.threads",
            "report it",
        ),
        ("ERROR org.apache.kafka.common.errors.CorruptRecordException: Record", "damaged", "copy"),
    ],
)
def test_a_known_cause_is_named_with_its_remedy(log: str, cause: str, remedy: str) -> None:
    assert cause in message(log)
    assert remedy in message(log)


def test_a_full_disk_is_named_before_the_storage_error_it_causes() -> None:
    log = "KafkaStorageException: Error while writing\nCaused by: No space left on device"
    assert "no disk space" in message(log)


def test_a_port_taken_while_starting_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert f"port {port}" in message("java.net.BindException: Address already in use", port)


def test_what_every_start_writes_is_no_damage() -> None:
    log = (
        "[2026-11-22 21:28:50,296] INFO [LogDirFailureHandler]: Starting (kafka.server.X)\n"
        "[2026-11-22 21:28:51,001] INFO Initialized with meta.properties of the log dir (x.Y)\n"
    )
    assert "damaged" not in message(log)
    assert "Kafka ended with exit code 1" in message(log)
    assert "damaged" in message(log.replace("INFO Init", "ERROR Init"))


def test_an_unknown_cause_shows_the_last_relevant_lines() -> None:
    log = "INFO a\nERROR the odd thing\n\tat a.b.C\nINFO shutting down\n"
    text = message(log)
    assert "the odd thing" in text
    assert "shutting down" not in text
    assert "server.log" in text


def test_a_silent_end_says_so() -> None:
    assert "wrote nothing" in relevant("")


def test_only_what_this_start_wrote_is_read(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("old error\n")
    offset = log.stat().st_size
    log.write_text("old error\nnew\n")
    assert read_since(log, offset) == "new\n"
    log.write_text("rolled\n")
    assert read_since(log, offset) == "rolled\n"
    assert read_since(tmp_path / "none", 0) == ""
