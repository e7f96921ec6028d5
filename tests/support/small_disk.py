"""A disk of a few MiB in memory that a test can fill to the last byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1024 * 1024


class SmallDisk:
    """`path` is its root; `fill` leaves some bytes free, `free` gives the rest back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def left(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        # unbuffered: a buffer that a full disk refused would be written once more by `close`
        with self._ballast.open("ab", buffering=0) as ballast:
            while (more := self.left - leave) > 0:
                try:
                    ballast.write(bytes(min(more, MIB)))
                except OSError:
                    break  # somebody else wrote at the same time: it is full

    def free(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(path: Path, mib: int) -> Iterator[SmallDisk]:
    """Mount it; the test is skipped where that is not allowed."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tidegate-test", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a disk that gets full needs the right to mount: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
