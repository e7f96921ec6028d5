"""Each scenario is played to each worker that can run here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.link_suite.play import Play, playing
from support.link_suite.workers import KINDS, Kind, WorkerUnderTest


@pytest.fixture(scope="session", params=KINDS, ids=lambda kind: kind.name)
def worker(request: pytest.FixtureRequest) -> WorkerUnderTest:
    """A worker with the suite's application."""
    kind: Kind = request.param
    missing = kind.missing()
    if missing is not None:
        pytest.skip(missing)
    return kind.make()


@pytest.fixture
async def play(worker: WorkerUnderTest, tmp_path: Path) -> AsyncIterator[Play]:
    """A worker that is connected to one owner of four partitions."""
    async with playing(worker, tmp_path) as found:
        await found.owner.connected()
        yield found
