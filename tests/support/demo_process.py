"""`tidegate demo` as a process of its own, as a person would start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_INJECTED_FAULTS = Path(__file__).parents[1] / "acceptance/injected_faults"
TIDEGATE = Path(sys.executable).with_name("tidegate")


@dataclass(frozen=True)
class DemoRun:
    """How it ended; `figures` is the one object on standard output."""

    code: int
    figures: dict[str, Any]
    said: str

    def broken(self) -> set[str]:
        """The guarantees with a violation."""
        return {name for name, g in self.figures["guarantees"].items() if g["violations"]}


def environment() -> dict[str, str]:
    """Ours, without settings that a user or another test may have set."""
    return {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}


def run_demo(*arguments: str, fault: str | None = None, seconds: float = 600) -> DemoRun:
    """Run it to its end, with a fault of `injected_faults/` if one is named."""
    env = environment()
    if fault is not None:
        path = [str(_INJECTED_FAULTS), *filter(None, [env.get("PYTHONPATH")])]
        env |= {"PYTHONPATH": os.pathsep.join(path), "DEMO_FAULT": fault}
    done = subprocess.run(
        [TIDEGATE, "demo", "--json", *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"one line of JSON, not {done.stdout!r}\n{done.stderr}"
    return DemoRun(done.returncode, json.loads(lines[0]), done.stderr)
