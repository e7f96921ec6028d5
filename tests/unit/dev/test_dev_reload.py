"""`--reload` sees changes of code, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

from streams.dev.reload import changes, code_folders


def test_folders_without_code_are_not_watched(tmp_path: Path) -> None:
    for name in ("shop/jobs", "shop/__pycache__", ".git/hooks", "env/lib", "data/logs"):
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
        async with asyncio.timeout(20):
            while not seen.done():
                number += 1
                path.write_text(f"{text}{number}")
                await asyncio.wait({seen}, timeout=0.5)
        return seen.result()

    assert await told(tmp_path / "app.py", "# ") == {tmp_path / "app.py"}
    (tmp_path / "notes.txt").write_text("nothing")
    assert await told(tmp_path / "topology.yaml", "# ") == {tmp_path / "topology.yaml"}
    (tmp_path / "shop").mkdir()
    assert await told(tmp_path / "shop/jobs.py", "# ") == {tmp_path / "shop/jobs.py"}
