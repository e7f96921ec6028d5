"""One embedded broker for all workers of a pytest-xdist run.

The first worker that asks starts the broker as its own child. At its end it waits until the other
users have left, then stops the broker. File locks carry this, because the kernel releases them
when a process ends, however it ends. The broker ends too when its owner is killed.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streams.broker.embedded import EmbeddedKafka


@contextmanager
def shared_broker(folder: Path, broker: EmbeddedKafka) -> Iterator[str]:
    """Yield the address of the broker that `folder` names; without one, start `broker`."""
    address = folder / "kafka.address"
    with ExitStack() as stack:
        with _locked(folder / "kafka.turn", fcntl.LOCK_EX):
            users = stack.enter_context(_locked(folder / "kafka.users", fcntl.LOCK_SH))
            ours = not address.exists()
            if ours:
                stack.enter_context(broker)
                address.write_text(broker.bootstrap)
            bootstrap = address.read_text()
        try:
            yield bootstrap
        finally:
            if ours:
                with _locked(folder / "kafka.turn", fcntl.LOCK_EX):
                    address.unlink()
                fcntl.flock(users, fcntl.LOCK_EX)  # waits for the last user


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    with path.open("w") as file:
        fcntl.flock(file, kind)
        yield file.fileno()
