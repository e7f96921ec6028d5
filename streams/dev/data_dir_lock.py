"""A data directory serves one pipeline at a time; its `dev.json` describes that pipeline.

    {"pid", "url", "command", "directory", "bootstrap", "topology", "topic_prefix", "broker_pid",
     "processes": [{"name", "stage", "instance", "pid", "port"}]}

`command` has the arguments after `tidegate`, which contain no secret, and `directory` is where it
was started. A `pid` is null while its process is down. The pipeline deletes the file when it stops;
a file that is left over shows that the pipeline was killed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streams.dev_state import read_state, state_file
from streams.errors import ConfigError


def write_state(data_dir: Path, state: dict[str, Any]) -> None:
    """Replace the file; a reader sees the old or the new one, whole."""
    draft = data_dir / f".dev.json.{os.getpid()}"
    draft.write_text(json.dumps(state, indent=1) + "\n")
    draft.replace(state_file(data_dir))


@contextmanager
def claimed(data_dir: Path) -> Iterator[None]:
    """Hold the directory; the system releases it when this process ends.

    Raises:
        ConfigError: another pipeline runs on it, or it cannot be written.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data_dir / "dev.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unusable(data_dir, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise _in_use(data_dir) from error
    try:
        yield
    finally:
        state_file(data_dir).unlink(missing_ok=True)
        os.close(descriptor)


def unusable(data_dir: Path, error: OSError) -> ConfigError:
    """Why a data directory cannot be used."""
    return ConfigError(
        f"cannot use the data directory {data_dir}: {error.strerror}; "
        "make it writable, or choose another with --data-dir"
    )


def _in_use(data_dir: Path) -> ConfigError:
    state = read_state(data_dir)
    who = f" (pid {state['pid']}, {state['url']})" if "pid" in state and "url" in state else ""
    return ConfigError(
        f"another pipeline runs on the data directory {data_dir}{who}: use that one, stop it, "
        "or choose another with --data-dir"
    )
