"""What `docs/json-output.md` says of each command with `--json`."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs/json-output.md").read_text()
ROWS = {
    command: keys
    for commands, keys in re.findall(r"^\| (`[^|]+`) \| (.+) \|$", PAGE, re.MULTILINE)
    for command in re.findall(r"`([^`]+)`", commands)
}


def keys_of(command: str) -> list[str]:
    """All keys in the row of a command, in the order of the page."""
    return re.findall(r"`(\w+)`", ROWS[command])
