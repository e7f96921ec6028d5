"""Looks at the disk and the limits of this machine, for a stage that keeps state on it."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streams.doctor.finding import Check, Finding, counted
from streams.state.open_files import LEAST, needed_for

STATE = Check("settings", "state directory")
FILES = Check("settings", "open files")

_GIB = 1024**3
_ENOUGH_BYTES = _GIB
_IN_MEMORY = ("tmpfs", "ramfs")
_MOUNTS = Path("/proc/self/mounts")


@dataclass(frozen=True, slots=True)
class DiskSeen:
    """A directory, or the one above it that exists; `kind` is empty where it cannot be told.

    `open_files` is the most that a process here may open; None if nothing limits it.
    """

    path: Path
    exists: bool
    writable: bool
    free: int
    kind: str
    open_files: int | None


def look(path: Path) -> DiskSeen:
    """Look at a directory without creating it."""
    wanted = path.resolve()
    there = next(p for p in (wanted, *wanted.parents) if p.exists())
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DiskSeen(
        path,
        there == wanted,
        writable,
        shutil.disk_usage(there).free,
        _kind(there),
        None if hard == resource.RLIM_INFINITY else hard,
    )


def _kind(path: Path) -> str:
    """The kind of file system, by the longest mount point above a path (Linux)."""
    try:
        mounts = [line.split() for line in _MOUNTS.read_text().splitlines()]
    except OSError:
        return ""
    over = [m for m in mounts if len(m) > 2 and path.is_relative_to(m[1].replace("\\040", " "))]
    return max(over, key=lambda mount: len(mount[1]))[2] if over else ""


def state(seen: DiskSeen) -> Iterator[Finding]:
    """State can be written, has room, and outlives a restart of the machine."""
    if not seen.writable:
        yield STATE.fail(
            f"{seen.path} is no directory that this user may write",
            f"chown it to the user of the process, or name another directory with --data-dir "
            f"(TIDEGATE_DATA_DIR) instead of {seen.path}",
        )
        return
    if seen.free < _ENOUGH_BYTES:
        yield STATE.warn(
            f"{seen.free // 1024**2} MiB are free under {seen.path}, and a stage ends when its "
            "disk is full",
            "free some space, or name another disk with TIDEGATE_DATA_DIR",
        )
    if seen.kind in _IN_MEMORY:
        yield STATE.warn(
            f"{seen.path} is in memory ({seen.kind}): it counts against the process's memory, and "
            "a restart rebuilds every store",
            "name a directory on a disk with TIDEGATE_DATA_DIR",
        )
    elif seen.free >= _ENOUGH_BYTES:
        there = "can be written" if seen.exists else "does not exist yet and can be created"
        yield STATE.ok(f"{seen.path} {there}, {seen.free // _GIB} GiB free")


def open_files(seen: DiskSeen, stage: str, databases: int) -> Iterator[Finding]:
    """A process can open the databases of all partitions, if it is the only one of its stage."""
    needed = needed_for(databases, LEAST)
    if seen.open_files is not None and seen.open_files < needed:
        yield FILES.fail(
            f"a process of {stage} needs {needed} open files for its {databases} databases, and "
            f"may open {seen.open_files} here",
            f"raise the limit to {needed} (`ulimit -n`, systemd's LimitNOFILE), or share the "
            "partitions among more processes",
        )
    else:
        limit = "no limit" if seen.open_files is None else f"{seen.open_files} allowed"
        yield FILES.ok(
            f"{counted(databases, 'database')} of {stage} need {needed} open files, {limit} here"
        )
