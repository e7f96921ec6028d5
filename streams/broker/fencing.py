"""Makes the controllers drop the brokers that ran before, ahead of the next start of all nodes.

Kafka 4.3 and 4.4 drop the transaction markers of a partition that has no leader, instead of keeping
them until it has one (KAFKA-20734). The transaction's records then stay pending for ever, and block
everything that `read_committed` consumers and the group's offsets wait for. A restarted node
assumes that it is still the leader and resumes its transactions. It then loses all leaderships for
a moment when its controller finds out that the former broker is gone.

So the controllers first run alone, with no transaction to resume, until they have recorded that.
They drop one broker after another. The last one is then the only replica in sync of all partitions
that it has: all of them, and with them the transactions, get their leader back in one moment.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from streams.broker.datadir import DataDir
from streams.broker.diagnosis import read_since, size_of
from streams.broker.process import KeptProcess

_POLL_SECONDS = 0.025
_ACTIVE, _FENCING = "Becoming the active controller", "Fencing broker {} "
_NOBODY_SECONDS = 3.0
"""A running controller looks for ended sessions of 200 ms every 25 ms (`controller_properties`). If
it finds none in this time, there is none, as after a start that failed before it served anyone."""


@dataclass(frozen=True)
class LoneController:
    """A node's controller without its broker.

    `before` is the metadata log, below `data`, as it was when the controller started; `log` reads
    what the controller has logged since.
    """

    node_id: int
    process: KeptProcess
    data: Path
    before: Mapping[Path, int]
    log: Callable[[], str]


@contextmanager
def lone_controller(
    directory: DataDir, command: Sequence[str], lock_fd: int
) -> Iterator[LoneController]:
    """Run a node's controller; `command` starts it, `lock_fd` is the directory's lock.

    Raises:
        BrokerError: the command cannot be executed.
    """
    log = partial(read_since, directory.server_log, size_of(directory.server_log))
    before = metadata_log(directory.data)
    process = KeptProcess.start(command, lock_fd=lock_fd, output=directory.jvm_log)
    try:
        yield LoneController(directory.node_id, process, directory.data, before, log)
    finally:
        process.kill()


def metadata_log(data: Path) -> dict[Path, int]:
    """Bytes in each segment of the cluster's metadata, under Kafka's log directory."""
    segments = (data / "__cluster_metadata-0").glob("*.log")
    return {segment: segment.stat().st_size for segment in segments}


def await_fenced(controllers: Sequence[LoneController], deadline: float) -> bool:
    """Wait until the controllers, one on each node, have recorded that no broker is alive.

    Returns False if one of them ended, or if `deadline`, on the monotonic clock, passed.
    """
    nodes = [controller.node_id for controller in controllers]
    lines = [_ACTIVE, *(_FENCING.format(node) for node in nodes)]
    since: dict[str, float] = {}
    while time.monotonic() < deadline:
        written = b"".join(_appended(each.data, each.before) for each in controllers)
        if all(_fenced(node).search(written) for node in nodes):
            return True
        logged = "".join(controller.log() for controller in controllers)
        for line in lines:
            if line in logged:
                since.setdefault(line, time.monotonic())
        # `_appended` shows the controllers' writes, unless recovery cut a torn end off.
        if since and time.monotonic() - max(since.values()) > _NOBODY_SECONDS:
            return True
        if any(controller.process.ended_within(_POLL_SECONDS) for controller in controllers):
            return False
    return False


def _fenced(node_id: int) -> re.Pattern[bytes]:
    """BrokerRegistrationChangeRecord in the metadata log (KIP-631): frame 1, type 17, version,
    broker, its epoch, then the tagged fields. The first of them (tag 0, one byte) is 1: fenced."""
    node = re.escape(node_id.to_bytes(4, "big"))
    return re.compile(rb"\x01\x11." + node + rb".{8}[^\0]\0\x01\x01", re.S)


def _appended(data: Path, before: Mapping[Path, int]) -> bytes:
    pieces = []
    for segment in sorted(metadata_log(data)):
        with suppress(FileNotFoundError), segment.open("rb") as file:
            file.seek(before.get(segment, 0))
            pieces.append(file.read())
    return b"".join(pieces)
