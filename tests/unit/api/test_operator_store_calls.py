"""A store of artifacts that hangs takes no thread that the operator needs, and is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conditions import eventually

from streams.api.artifacts import sweep as artifact_sweep
from streams.api.artifacts.store_calls import asked
from streams.artifacts.local import LocalStore
from streams.artifacts.store import ArtifactStore, StoreUnavailable


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def test_a_store_that_hangs_is_told_and_takes_no_thread_of_others(
    tmp_path: Path, go_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.api.artifacts.store_calls.ANSWER_SECONDS", 0.01)
    store, begun = LocalStore(tmp_path), []

    def hangs(_: ArtifactStore) -> None:
        begun.append(1)
        go_on.wait()

    answers = await asyncio.gather(
        *(asked(store, hangs, whose=f"tenant-{number % 4}") for number in range(40)),
        return_exceptions=True,
    )
    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert len(begun) == 16
    assert await asyncio.to_thread(lambda: "free") == "free"
    with pytest.raises(StoreUnavailable, match="it hangs"):
        await asked(store, hangs)
    go_on.set()

    def free() -> bool:
        try:
            return asyncio.run(asked(store, lambda _: True))
        except StoreUnavailable:
            return False

    await asyncio.to_thread(eventually, free, what="a store that answers again")


async def test_a_tenant_whose_calls_take_long_keeps_no_other_from_its_own(
    tmp_path: Path, go_on: threading.Event
) -> None:
    store, begun = LocalStore(tmp_path), []

    def lists(_: ArtifactStore) -> None:
        begun.append(1)
        go_on.wait()

    waiting = [asyncio.create_task(asked(store, lists, whose="acme")) for _ in range(20)]
    while len(begun) < 12:
        await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="for this tenant"):
        await asked(store, lists, whose="acme")
    assert await asked(store, lambda _: "read", whose="globex") == "read"
    assert await asked(store, lambda _: "swept") == "swept"
    go_on.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(begun) == 12


async def test_an_erasure_does_not_wait_for_a_store_that_hangs(
    tmp_path: Path, go_on: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.api.artifacts.store_calls.ANSWER_SECONDS", 0.01)
    store = LocalStore(tmp_path)
    store.put("acme/job_1/art_1", [b"one"])
    monkeypatch.setattr(store, "remove", lambda path: go_on.wait())
    with pytest.raises(StoreUnavailable, match="did not answer within"):
        await artifact_sweep.remove_of(store, "acme/")


async def test_what_the_store_raises_is_raised(tmp_path: Path) -> None:
    def refuses(_: ArtifactStore) -> None:
        raise StoreUnavailable("refused")

    for _ in range(20):  # each gives its place back
        with pytest.raises(StoreUnavailable, match="refused"):
            await asked(LocalStore(tmp_path), refuses)
