"""Where the pipeline of a data directory answers: `dev.json` in it, written by `tidegate dev`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def state_file(data_dir: Path) -> Path:
    return data_dir / "dev.json"


def read_state(data_dir: Path) -> dict[str, Any]:
    """What the running pipeline, or a killed one, wrote last; empty when there is none."""
    try:
        found = json.loads(state_file(data_dir).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
