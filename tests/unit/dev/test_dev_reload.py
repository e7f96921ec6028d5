"""`--reload` sees changes of code, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.conditions import PATIENCE_SECONDS

from streams.dev import reload
from streams.dev.reload import changes, code_folders


def test_folders_without_code_are_not_watched(tmp_path: Path) -> None:
    for name in (
        "shop/jobs",
        "shop/__pycache__",
        ".git/hooks",
        "env/lib",
        "data/logs",
        "tests/jobs",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "env/pyvenv.cfg").touch()
    (tmp_path / "data/dev.lock").touch()
    found = [str(path.relative_to(tmp_path)) for path in code_folders(tmp_path)]
    assert found == [".", "shop", "shop/jobs"]


async def test_changes_of_code_and_of_the_topology_are_told_also_in_new_folders(
    tmp_path: Path,
) -> None:
    watch = changes(tmp_path, tmp_path / "topology.yaml")

    async def told(path: Path, text: str) -> set[Path]:
        """Write until the watch has begun and sees it."""
        seen = asyncio.ensure_future(anext(watch))
        number = 0
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not seen.done():
                number += 1
                path.write_text(f"{text}{number}")
                await asyncio.wait({seen}, timeout=0.5)
        return seen.result()

    assert await told(tmp_path / "app.py", "# ") == {tmp_path / "app.py"}
    (tmp_path / "notes.txt").write_text("nothing")
    for name in ("test_app.py", "app_test.py", "conftest.py"):
        (tmp_path / name).write_text("# a test")
    assert await told(tmp_path / "topology.yaml", "# ") == {tmp_path / "topology.yaml"}
    (tmp_path / "shop").mkdir()
    assert await told(tmp_path / "shop/jobs.py", "# ") == {tmp_path / "shop/jobs.py"}


async def test_what_is_saved_while_the_check_of_a_new_folder_runs_is_told_next(
    tmp_path: Path,
) -> None:
    seen = changes(tmp_path)
    first = asyncio.ensure_future(anext(seen))
    await asyncio.sleep(0)  # it has looked once
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/jobs.py").touch()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await first == {tmp_path / "shop/jobs.py"}
        (tmp_path / "app.py").touch()  # the check still runs: nobody asks for changes
        assert await anext(seen) == {tmp_path / "app.py"}


async def test_a_watch_that_fails_is_told_once_and_changes_are_still_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, tries = list[str](), 0

    async def watch(*_: Path, **__: object) -> AsyncIterator[set[object]]:
        nonlocal tries
        tries += 1
        if tries == 3:
            (tmp_path / "app.py").write_text("# saved")
        raise OSError("OS file watch limit reached")
        yield set()

    monkeypatch.setattr(reload, "awatch", watch)
    monkeypatch.setattr(reload, "_LOOK_AGAIN_MS", 1)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await anext(changes(tmp_path, None, told.append)) == {tmp_path / "app.py"}
    assert told == [
        "a watch of the code ended (OS file watch limit reached); changes are seen within 2 s"
    ]


def test_a_folder_that_may_not_be_entered_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "database").mkdir()

    def denied(_: Path) -> bool:
        raise PermissionError

    monkeypatch.setattr(Path, "exists", denied)
    assert list(code_folders(tmp_path)) == [tmp_path]
