"""What the scenarios of the link get: a worker that can run here, and a play with one owner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from support.link_suite.play import Play
    from support.link_suite.workers import WorkerUnderTest


@pytest.fixture(scope="session", params=["typescript", "python"])
def linked_worker(request: pytest.FixtureRequest) -> WorkerUnderTest:
    """Each worker with the suite's application; one that cannot run here is skipped."""
    from support.link_suite.workers import KINDS

    kind = KINDS[request.param]
    missing = kind.missing()
    if missing is not None:
        pytest.skip(missing)
    return kind.make()


@pytest.fixture
async def play(linked_worker: WorkerUnderTest, tmp_path: Path) -> AsyncIterator[Play]:
    """A worker that is connected to one owner of four partitions."""
    from support.link_suite.play import playing

    async with playing(linked_worker, tmp_path) as found:
        await found.owner.connected()
        yield found
