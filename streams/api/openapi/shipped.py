"""The document that ships with the code."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_FILE = Path(__file__).with_name("openapi.json")


@cache
def document() -> bytes:
    """Return the document as JSON."""
    return _FILE.read_bytes()


@cache
def version() -> str:
    """Return what differs between two documents that differ."""
    return hashlib.sha256(document()).hexdigest()[:16]
