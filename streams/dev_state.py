"""The state file of `tidegate dev`: `dev.json` in a data directory, with the pipeline's address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def state_file(data_dir: Path) -> Path:
    return data_dir / "dev.json"


def read_state(data_dir: Path) -> dict[str, Any]:
    """The last state that a running or killed pipeline wrote; empty if there is none."""
    try:
        found = json.loads(state_file(data_dir).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
