"""The jar lock: what is pinned, fetched, verified, refused."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from streams.broker import jars
from streams.errors import BrokerError

GOOD = b"a jar"
JAR = jars.Jar("org.apache.kafka", "kafka_2.13", "4.3.9", hashlib.sha256(GOOD).hexdigest())


class Repository:
    """Stands in for jgo's context: `project(...).at_version(...).artifact().resolve()`."""

    def __init__(self, scratch: Path, content: bytes | Exception) -> None:
        self.scratch = scratch
        self.content = content

    def project(self, *_: str) -> Repository:
        return self

    def at_version(self, _: str) -> Repository:
        return self

    def artifact(self) -> Repository:
        return self

    def resolve(self) -> Path:
        if isinstance(self.content, Exception):
            raise self.content
        path = self.scratch / "download"
        path.write_bytes(self.content)
        return path


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lock one jar, cache in a fresh directory, and answer its download as told."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "read_lock", lambda *_: (JAR,))

    def answer(content: bytes | Exception) -> None:
        monkeypatch.setattr(jars, "_maven", lambda scratch: Repository(scratch, content))

    return answer


def test_the_committed_lock_pins_one_release_with_its_logging() -> None:
    lock = jars.read_lock()

    kafka = {jar.version for jar in lock if jar.group == "org.apache.kafka"}
    assert kafka == {jars.kafka_version(lock)}
    assert kafka.pop().startswith("4.3.")
    assert {"kafka-clients", "kafka-raft", "log4j-slf4j-impl"} <= {jar.artifact for jar in lock}
    assert len({(jar.group, jar.artifact) for jar in lock}) == len(lock)


def test_a_lock_written_is_read_back(tmp_path: Path) -> None:
    jars.write_lock((JAR,), tmp_path / "jars.lock")
    assert jars.read_lock(tmp_path / "jars.lock") == (JAR,)


@pytest.mark.parametrize("line", ["a:b:1", "a:b:1 sha256:00", "a:b sha256:" + "0" * 64])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "jars.lock").write_text(f"# head\n{line}\n")
    with pytest.raises(BrokerError, match=r"jars\.lock:2.*streams\.broker\.jars lock"):
        jars.read_lock(tmp_path / "jars.lock")


def test_what_is_cached_is_not_fetched_again(serve: Any) -> None:
    serve(GOOD)
    (first,) = jars.ensure_jars()
    serve(AssertionError("asked the network"))

    assert jars.ensure_jars() == (first,)
    assert first.read_bytes() == GOOD


def test_a_refused_download_names_artefact_and_remedy(serve: Any) -> None:
    serve(ConnectionError("network is unreachable"))
    with pytest.raises(BrokerError, match=r"org\.apache\.kafka:kafka_2\.13:4\.3\.9.*--bootstrap"):
        jars.ensure_jars()


def test_a_download_with_another_checksum_never_enters_the_cache(serve: Any) -> None:
    serve(b"another jar")
    with pytest.raises(BrokerError, match="not what was pinned"):
        jars.ensure_jars()
    assert not (jars.cache_dir() / JAR.filename).exists()


def test_a_jar_changed_in_the_cache_is_refused(serve: Any) -> None:
    serve(GOOD)
    (path,) = jars.ensure_jars()
    path.write_bytes(b"changed")
    with pytest.raises(BrokerError, match=r"kafka_2\.13-4\.3\.9\.jar.*delete it"):
        jars.ensure_jars()


def test_the_java_example_uses_the_release_of_the_server() -> None:
    example = Path(__file__).parents[3] / "examples/readers/jars.lock"
    [streams] = [jar for jar in jars.read_lock(example) if jar.artifact == "kafka-streams"]
    assert streams.version == jars.kafka_version()
