"""A store of artifacts that hangs costs a worker few threads, however many runs give up on it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from support.conditions import eventually

from streams.artifacts.local import LocalStore
from streams.artifacts.store import ArtifactStore, StoreUnavailable
from streams.worker.handler import store_calls
from streams.worker.handler.store_calls import asked


async def test_calls_that_hang_after_their_runs_are_bounded(tmp_path: Path) -> None:
    store, go_on, begun = LocalStore(tmp_path), threading.Event(), []

    def hangs(_: ArtifactStore) -> None:
        begun.append(1)
        go_on.wait()

    try:
        for number in range(1, 33):
            call = asyncio.create_task(asked(store, hangs))
            while len(begun) < number:
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        with pytest.raises(StoreUnavailable, match="32 calls of ended runs hang"):
            await asked(store, hangs)
        assert len(begun) == 32
    finally:
        go_on.set()
    await asyncio.to_thread(eventually, lambda: not len(store_calls._left), what="their ends")
    assert await asked(store, lambda _: 1) == 1
