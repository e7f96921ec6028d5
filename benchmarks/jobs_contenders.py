"""The systems that bench_jobs compares, each with the settings that were found best for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from harness import variants
from jobs_queues import Settings, celery, procrastinate
from jobs_run import System
from jobs_tidegate import tidegate


@dataclass(frozen=True)
class Contender:
    """`swept` are the values tried for each setting, one at a time around `settings`."""

    name: str
    start: Callable[[Path, Settings], AbstractContextManager[System]]
    settings: Settings = field(default_factory=dict)
    swept: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def variants(self) -> list[tuple[str, Settings]]:
        """What a sweep runs: the settings as they are, first and last, and each one changed."""
        return variants(self.settings, self.swept)


def _apart(folder: Path, settings: Settings) -> AbstractContextManager[System]:
    return tidegate(folder, settings, "--apart")


OURS = {"partitions": "4", "slots": "200"}
FUSED = Contender(
    "tidegate",
    tidegate,
    settings=OURS,
    swept={"partitions": ("1", "2", "8"), "slots": ("20", "50", "400")},
)
APART = Contender("tidegate apart", _apart, settings=OURS)
CELERY = Contender(
    "celery",
    celery,
    settings={
        "processes": "1",
        "worker.pool": "threads",
        "worker.concurrency": "8",
        "worker.prefetch-multiplier": "4",
        "server.appendonly": "no",
    },
    swept={
        "processes": ("2",),
        "worker.pool": ("prefork", "solo"),
        "worker.concurrency": ("1", "2", "20"),
        "worker.prefetch-multiplier": ("1", "32"),
        "server.appendonly": ("yes",),
    },
)
PROCRASTINATE = Contender(
    "procrastinate",
    procrastinate,
    settings={
        "processes": "1",
        "concurrency": "20",
        "polling": "5",
        "server.shared_buffers": "256MB",
        "server.synchronous_commit": "off",
    },
    swept={
        "processes": ("2",),
        "concurrency": ("5", "50"),
        "polling": ("0.1", "1"),
        "server.synchronous_commit": ("on",),
        "server.fsync": ("off",),
    },
)
ALL = {contender.name: contender for contender in (FUSED, APART, CELERY, PROCRASTINATE)}
