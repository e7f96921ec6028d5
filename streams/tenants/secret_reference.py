"""References to secrets: `env:NAME` or `file:/absolute/path`, resolved where they are used.

The operator checks only their form, because the processes that resolve them may run on other
hosts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from streams.errors import SecretUnresolved

_ENV = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
_FILE = re.compile(r"file:/[^\x00-\x1f\x7f]+")
_MAX_LENGTH = 1024
_MAX_SECRET_BYTES = 64 * 1024

FileState = tuple[int, int, int, int]


def check_reference(reference: str) -> str:
    """The reference itself; raises `ValueError`, naming the two forms, if it has neither."""
    formed = _ENV.fullmatch(reference) or _FILE.fullmatch(reference)
    if formed is None or len(reference) > _MAX_LENGTH:
        raise ValueError("must be env:NAME or file:/absolute/path")
    return reference


def file_state(reference: str) -> FileState | None:
    """Equal as long as the referenced file is the same and unchanged; None if there is no file.

    It follows links: Kubernetes changes a mounted secret by a link on the path to its file.
    """
    kind, _, name = reference.partition(":")
    if kind != "file":
        return None
    try:
        found = os.stat(name)
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def resolve(reference: str) -> bytes:
    """The secret itself, from this process's environment or this host's files, now.

    Raises:
        SecretUnresolved: the reference leads to no secret; the message says what is there.
    """
    kind, _, name = reference.partition(":")
    secret = _from_environment(name) if kind == "env" else _from_file(Path(name))
    if not secret:
        raise SecretUnresolved(f"{reference} leads to an empty secret")
    return secret


def _from_environment(name: str) -> bytes:
    if name not in os.environ:
        raise SecretUnresolved(f"this process's environment has no {name}")
    return os.environb[name.encode()]


def _from_file(path: Path) -> bytes:
    try:
        # Read regular files only: reading a pipe could wait for ever.
        if not path.is_file() or path.stat().st_size > _MAX_SECRET_BYTES:
            raise SecretUnresolved(f"no file of at most {_MAX_SECRET_BYTES} bytes at {path}")
        # Strip the final newline: editors and `echo` add it, and it is no part of the secret.
        return path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise SecretUnresolved(f"{path} cannot be read: {error.strerror}") from error
