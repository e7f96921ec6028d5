"""Makes the controller drop the broker that ran before, ahead of the next broker's start.

Kafka 4.3 and 4.4 drop the transaction markers of a partition that has no leader, instead of keeping
them until it has one (KAFKA-20734). The transaction's records then stay pending for ever, and block
everything that `read_committed` consumers and the group's offsets wait for. A restarted node
assumes that it is still the leader and resumes its transactions. It then loses all leaderships for
a moment when its controller finds out that the former broker is gone.

So the controller first runs alone, with no transaction to resume, until it has recorded that.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from streams.broker.config import NODE_ID
from streams.broker.process import KeptProcess

_POLL_SECONDS = 0.025
_STARTED, _FENCING = "Kafka Server started", f"Fencing broker {NODE_ID} "
_FENCED = re.compile(rb"\x01\x11." + NODE_ID.to_bytes(4, "big") + rb".{8}[^\0]\0\x01\x01", re.S)
"""BrokerRegistrationChangeRecord in the metadata log (KIP-631): frame 1, type 17, version, broker,
its epoch, then the tagged fields. The first of them (tag 0, one byte) is 1: fenced."""
_NOBODY_SECONDS = 3.0
"""A running controller looks for ended sessions of 200 ms every 25 ms (`controller_properties`). If
it finds none in this time, there is none, as after a start that failed before it served anyone."""


def metadata_log(data: Path) -> dict[Path, int]:
    """Bytes in each segment of the cluster's metadata, under Kafka's log directory."""
    segments = (data / "__cluster_metadata-0").glob("*.log")
    return {segment: segment.stat().st_size for segment in segments}


def await_fenced(
    controller: KeptProcess,
    data: Path,
    before: Mapping[Path, int],
    log: Callable[[], str],
    deadline: float,
) -> bool:
    """Wait until the controller, whose log is `log`, has recorded that no broker is alive.

    `before` is the metadata log as it was when the controller started. Returns False if the
    controller ended, or if `deadline`, on the monotonic clock, passed.
    """
    since: dict[str, float] = {}
    while time.monotonic() < deadline:
        if _FENCED.search(_appended(data, before)):
            return True
        logged = log()
        for line in (_STARTED, _FENCING):
            if line in logged:
                since.setdefault(line, time.monotonic())
        # `_appended` shows the controller's writes, unless recovery cut a torn end off.
        if since and time.monotonic() - max(since.values()) > _NOBODY_SECONDS:
            return True
        if controller.ended_within(_POLL_SECONDS):
            return False
    return False


def _appended(data: Path, before: Mapping[Path, int]) -> bytes:
    pieces = []
    for segment in sorted(metadata_log(data)):
        with suppress(FileNotFoundError), segment.open("rb") as file:
            file.seek(before.get(segment, 0))
            pieces.append(file.read())
    return b"".join(pieces)
