"""The command line as a person or a script runs it, against a pipeline on a data directory."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The objects of an output that has one on each line."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True)
class AtTheTerminal:
    data_dir: Path

    def run(self, line: str, typed: str = "") -> Ran:
        """Run `tidegate` with these words; `typed` is its standard input."""
        ran = subprocess.run(
            [sys.executable, "-m", "streams.cli", *line.split(), "--data-dir", str(self.data_dir)],
            input=typed,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)
