"""A JVM takes Kafka's classes from the archive, and does without a damaged one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from streams.broker import java
from streams.broker.class_archive import ensure_class_archive
from streams.broker.jars import ensure_jars

_TOOL = "kafka.tools.StorageTool"
_CLASS = "org.apache.kafka.common.Uuid"

pytestmark = pytest.mark.long  # the first of them makes the archive where it is missing


def run_tool(*flags: str) -> subprocess.CompletedProcess[str]:
    """Kafka's formatting command in the JVM of the embedded broker, which prints an id."""
    program, *arguments = java.format_command(ensure_jars(), Path("none"), "none")
    command = [program, *flags, *arguments[: arguments.index(_TOOL)], _TOOL, "random-uuid"]
    return subprocess.run(
        command, env=java.environment(), capture_output=True, text=True, check=False
    )


def source(told: str) -> str:
    """Where a class came from that server and tool have in common."""
    (line,) = [line for line in told.splitlines() if f" {_CLASS} source: " in line]
    return line.partition(" source: ")[2]


def test_the_classes_come_from_the_archive() -> None:
    ensure_class_archive()
    assert source(run_tool("-Xlog:class+load").stdout) == "shared objects file"


def test_a_damaged_archive_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = bytearray(ensure_class_archive().read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 40] = b"?" * 40
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(damaged)
    monkeypatch.setattr(java, "class_archive", lambda: archive)
    done = run_tool("-Xlog:class+load")
    assert done.returncode == 0
    assert source(done.stdout).endswith(".jar")


def test_without_an_archive_the_jars_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "class_archive", lambda: Path("none"))
    done = run_tool()
    assert (done.returncode, done.stderr) == (0, "")
