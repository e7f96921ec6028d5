"""Has Kafka's cleaner compact topics at once, and waits until it has."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import sizes_on_disk as on_disk
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

CLEANER_SECONDS = 25.0
"""More than `log.cleaner.backoff.ms`, which is 15 s."""
_MOST_SECONDS = 120.0


def cleaned(logs: Path, topics: Sequence[str]) -> list[int]:
    """Bytes of their closed segments, once all stay the same for longer than the cleaner pauses."""
    sizes: list[int] = []
    deadline, since = time.monotonic() + _MOST_SECONDS, time.monotonic()
    while time.monotonic() < min(deadline, since + CLEANER_SECONDS):
        if (now := [on_disk.closed_segments(logs, topic) for topic in topics]) != sizes:
            sizes, since = now, time.monotonic()
        time.sleep(0.5)
    return sizes


def clean_soon(bootstrap: str, topics: Sequence[str], *, soon: bool) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    ratio, open_ms = ("0.0", "1000") if soon else ("0.2", "3600000")
    settings = {"segment.ms": open_ms, "min.cleanable.dirty.ratio": ratio}
    changed = [
        ConfigResource(
            ConfigResource.Type.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                for name, value in settings.items()
            ],
        )
        for topic in topics
    ]
    for future in admin.incremental_alter_configs(changed).values():
        future.result(10)
