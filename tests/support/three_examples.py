"""The examples for agents as one application, whose tools tell a file what they do.

A test of `tidegate dev` gives it as `--app support.three_examples:app`. The file that HAPPENED
names gets a line of JSON when a call begins, and one when it has finished. The first call of
`email:send` in each example never finishes, so that a test can kill its worker in the middle.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from examples.agent_loop import app as agent_loop
from examples.agent_loop import tools
from examples.ci_triage import app as ci_triage
from examples.nightly_digest import app as nightly_digest
from streams import App

HAPPENED = "HAPPENED"
TARGET = "support.three_examples:app"
_EXAMPLES = Path(__file__).parents[2] / "examples"

app = App("three_examples")
for each in (agent_loop.app, ci_triage.app, nightly_digest.app):
    app.jobs |= each.jobs
    app.tools |= each.tools
    app.declarations += each.declarations


def topology() -> str:
    """The overlays of the three, laid together; of limits with one name the last one counts."""
    merged = dict[str, list[Any]]()
    for name in ("agent_loop", "ci_triage", "nightly_digest"):
        overlay = yaml.safe_load((_EXAMPLES / name / "topology.yaml").read_text())
        for key, items in overlay.items():
            merged.setdefault(key, []).extend(items)
    merged["limits"] = list({limit["name"]: limit for limit in merged["limits"]}.values())
    return yaml.safe_dump(merged)


def happened(file: Path) -> list[dict[str, Any]]:
    """What the tools have told so far, oldest first."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _told(tool: str, moment: str, **more: Any) -> int:
    """Tell a moment of a call; how often the tool has had it by now."""
    with Path(os.environ[HAPPENED]).open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps({"tool": tool, "moment": moment, **more}) + "\n")
        file.flush()
        file.seek(0)
        told = map(json.loads, file)
        return sum((each["tool"], each["moment"]) == (tool, moment) for each in told)


def _telling(
    tool: str, function: Callable[..., Awaitable[Any]], *, hangs: bool = False
) -> Callable[..., Awaitable[Any]]:
    """The function, which tells of each call; with `hangs` the very first one never ends."""

    @functools.wraps(function)
    async def call(*given: Any, **arguments: Any) -> Any:
        begun = _told(tool, "begun", arguments=arguments)
        if hangs and begun == 1:
            await asyncio.Event().wait()
        result = await function(*given, **arguments)
        _told(tool, "finished", arguments=arguments)
        return result

    return call


def _tell() -> None:
    """Have the model and the tools of the examples tell of their calls."""
    for name, tool in tools.TOOLS.items():
        tools.TOOLS[name] = _telling(f"agent {name}", tool, hangs=name == "email:send")
    for module, name, told in (
        (agent_loop, "ask_model", "model"),
        (nightly_digest, "send_email", "digest email:send"),
    ):
        setattr(module, name, _telling(told, getattr(module, name), hangs=name == "send_email"))


if HAPPENED in os.environ:
    _tell()
