"""The first format of a node's directory, where Kafka's command does not do it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from streams.broker import formatting
from streams.broker.datadir import DataDir
from streams.broker.member import alone
from streams.errors import BrokerError

HANGS = "import signal; signal.pause()"
FAILS = "import sys; sys.exit('ERROR the command has no mood')"


def format_with(monkeypatch: pytest.MonkeyPatch, directory: DataDir, program: str) -> None:
    """Format with that Python program in the place of Kafka's command."""
    command = [sys.executable, "-c", program]
    monkeypatch.setattr(formatting, "format_command", lambda *_: command)
    lock = os.open(directory.kafka / "lock", os.O_RDWR | os.O_CREAT)
    try:
        settings = directory.kafka / "server.properties"
        formatting.format_data(directory, [], settings, lock, alone("id", 20_001, 20_002))
    finally:
        os.close(lock)


@pytest.fixture
def directory(tmp_path: Path) -> DataDir:
    found = DataDir(tmp_path)
    found.prepare()
    return found


def test_a_command_that_hangs_is_an_error_with_its_remedy(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formatting, "_FORMAT_SECONDS", 0.0)
    with pytest.raises(BrokerError, match=r"kafka/data within 0 s; .*then start it again$"):
        format_with(monkeypatch, directory, HANGS)


def test_a_command_that_fails_is_told_with_its_reason(
    directory: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BrokerError, match=r"cannot format .*kafka/data(.|\n)*has no mood"):
        format_with(monkeypatch, directory, FAILS)
