"""The embedded broker's part of a data directory: layout, lock, identity, first format.

<data-dir>/broker.json          address and pid of the running broker (`status.py`)
<data-dir>/kafka/instance.json  cluster id and ports, kept so that clients find it again
<data-dir>/kafka/data/          Kafka's own log directory
<data-dir>/kafka/server.log     Kafka's log; jvm.log: the JVM's own output
<data-dir>/kafka/lock           held by the JVM for as long as it lives
"""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from streams.broker import metadata_log
from streams.broker.member import NODE_ID
from streams.broker.status import read_status
from streams.errors import BrokerError

CLUSTER_FILE = "cluster.json"
"""In a directory that holds several nodes, each in a directory of its own (`cluster_file.py`)."""
MIN_FREE_BYTES = 256 * 1024 * 1024
_ENDING_SECONDS = 5.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Instance:
    """The identity that makes a restarted broker the same one to its clients."""

    cluster_id: str
    port: int
    controller_port: int


class DataDir:
    """Paths below one data directory, and the checks before a broker may use it."""

    def __init__(self, root: Path, node_id: int = NODE_ID) -> None:
        self.root = root.resolve()
        self.node_id = node_id
        self.kafka = self.root / "kafka"
        self.data = self.kafka / "data"
        self.server_log = self.kafka / "server.log"
        self.jvm_log = self.kafka / "jvm.log"
        self._instance = self.kafka / "instance.json"
        self._meta = self.data / "meta.properties"

    def prepare(self) -> None:
        """Create the layout.

        Raises:
            BrokerError: the directory cannot be written, has under 256 MiB free, or is a cluster's.
        """
        if (self.root / CLUSTER_FILE).exists():
            raise BrokerError(
                f"the data directory {self.root} holds a cluster of several nodes; run it with "
                "tidegate broker start and use it with --bootstrap, or choose another --data-dir"
            )
        try:
            self.kafka.mkdir(mode=0o700, parents=True, exist_ok=True)
            free = shutil.disk_usage(self.kafka).free
        except OSError as error:
            raise BrokerError(
                f"cannot use the data directory {self.root}: {error.strerror}; "
                "make it writable, or choose another with --data-dir"
            ) from error
        if free < MIN_FREE_BYTES:
            raise disk_full(self.root, free)

    def clear_temporary(self) -> None:
        """Empty the JVM's temporary directory; call only under the lock: a live JVM uses it."""
        shutil.rmtree(self.kafka / "tmp", ignore_errors=True)
        (self.kafka / "tmp").mkdir(mode=0o700)

    @contextmanager
    def claimed(self) -> Iterator[int]:
        """Hold the directory's lock; yields the descriptor that the JVM inherits and keeps.

        A killed broker's lock is freed a moment after its JVM is gone, when its reaper ends.

        Raises:
            BrokerError: a live broker uses the directory.
        """
        descriptor = os.open(self.kafka / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + _ENDING_SECONDS
            while not _locked(descriptor):
                if read_status(self.root).pid is not None or time.monotonic() > until:
                    raise self._in_use()
                time.sleep(_POLL_SECONDS)
            yield descriptor
        finally:
            os.close(descriptor)

    def _in_use(self) -> BrokerError:
        status = read_status(self.root)
        who = f" (pid {status.pid}, {status.bootstrap})" if status.pid else ""
        return BrokerError(
            f"the data directory {self.root} is in use by a live broker{who}; use that one with "
            f"--bootstrap, stop it (tidegate broker stop --data-dir {self.root}), or choose another"
        )

    def load(self) -> Instance | None:
        """Identity of the broker that used this directory before, or None for a new one.

        Raises:
            BrokerError: the stored identity or Kafka's files are damaged or from another broker.
        """
        known = self._read_instance()
        stored = self._read_meta()
        if stored is None:
            self._require_empty()
            return known
        if stored.get("node.id") != str(self.node_id) or "cluster.id" not in stored:
            raise self._corrupt(f"{self._meta} is not what Kafka wrote for node {self.node_id}")
        self._require_metadata_log()
        if known and stored["cluster.id"] != known.cluster_id:
            raise self._corrupt(
                f"{self.data} belongs to cluster {stored['cluster.id']}, "
                f"but {self._instance} to {known.cluster_id}"
            )
        return known or Instance(stored["cluster.id"], 0, 0)

    def save(self, instance: Instance) -> None:
        """Keep the identity for the next start."""
        write_atomically(self._instance, json.dumps(asdict(instance)) + "\n")

    @property
    def formatted(self) -> bool:
        """Whether Kafka's format command has finished here."""
        return self._meta.exists()

    def write_properties(self, name: str, text: str) -> Path:
        """Write a settings file that only the owner can read: it may hold a password and key."""
        path = self.kafka / name
        write_atomically(path, text)
        return path

    def _read_instance(self) -> Instance | None:
        try:
            return Instance(**json.loads(self._instance.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise self._corrupt(f"{self._instance} is not readable: {error}") from error

    def _read_meta(self) -> dict[str, str] | None:
        try:
            lines = self._meta.read_text(encoding="latin-1").splitlines()
        except FileNotFoundError:
            return None
        pairs = (line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
        return {name.strip(): value.strip() for name, value in pairs}

    def _require_empty(self) -> None:
        """Refuse partitions without meta.properties: formatting would hide them from us."""
        found = metadata_log.partitions(self.data)
        if found:
            raise self._corrupt(f"{self._meta} is missing beside partitions ({found[0]})")

    def _require_metadata_log(self) -> None:
        """Refuse a metadata log with which Kafka would start as a new cluster."""
        finding = metadata_log.damage(self.data)
        if finding:
            raise self._corrupt(finding)

    def _corrupt(self, finding: str) -> BrokerError:
        return corrupt(self.root, finding)


def new_cluster_id() -> str:
    """A random cluster id as Kafka writes them: 16 bytes, URL-safe base64, no leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def corrupt(root: Path, finding: str) -> BrokerError:
    """The error for a directory whose content cannot be trusted."""
    return BrokerError(
        f"the broker's data in {root} is damaged: {finding}; restore {root / 'kafka'} from a copy, "
        "or move it away to start empty (its topics are then gone)"
    )


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def disk_full(root: Path, free: int) -> BrokerError:
    """The error for too little disk space; `free` in bytes."""
    return BrokerError(
        f"no disk space for the broker: {free // 1024**2} MiB free under {root}, "
        f"{MIN_FREE_BYTES // 1024**2} MiB needed; free some, or choose another --data-dir"
    )


def write_atomically(path: Path, text: str) -> None:
    """Replace a file with mode 0600; a reader sees the whole old or the whole new text.

    Raises:
        BrokerError: no space left, or not writable.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        draft.replace(path)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise disk_full(path.parent, 0) from error
        raise BrokerError(f"cannot write {path}: {error.strerror}; make it writable") from error
