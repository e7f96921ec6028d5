"""Where the files that ship with the code are: `schemas/`, `topology.yaml`, `benchmarks/sizing`."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """Path of a shipped file: inside an installed wheel, otherwise in the checkout beside it."""
    packaged = _PACKAGE / "_data" / name
    return packaged if packaged.exists() else _PACKAGE.parent / name
