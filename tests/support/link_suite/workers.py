"""The workers that the suite plays to: how each is started, and why it cannot be here."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_NODE_WORKER = _ROOT / "examples" / "worker-node"


@dataclass(frozen=True)
class WorkerUnderTest:
    """A command that runs a worker with the suite's application, from the environment alone."""

    name: str
    command: tuple[str, ...]
    folder: Path
    lacks: frozenset[str] = frozenset()
    """Job types that its application does not have."""
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """A worker that may be absent here; `missing` says why."""

    make: Callable[[], WorkerUnderTest]
    missing: Callable[[], str | None] = lambda: None


def _no_node() -> str | None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        return "the TypeScript worker needs node and npm"
    return None


def _node() -> WorkerUnderTest:
    """Build it once, beside this Python, from its lock."""
    folder = Path(sys.prefix) / "worker-node"
    with folder.with_suffix(".lock").open("w") as claimed:
        fcntl.flock(claimed, fcntl.LOCK_EX)  # another process of the tests may build it now
        if not _is_built(folder):
            _build(folder)
    return WorkerUnderTest("typescript", ("node", "dist/app.js"), folder)


def _sources() -> list[Path]:
    return [
        *(_NODE_WORKER / name for name in ("package.json", "package-lock.json", "tsconfig.json")),
        *sorted((_NODE_WORKER / "src").glob("*.ts")),
    ]


def _is_built(folder: Path) -> bool:
    copies = ((each, folder / each.relative_to(_NODE_WORKER)) for each in _sources())
    same = all(copy.exists() and copy.read_bytes() == each.read_bytes() for each, copy in copies)
    return same and (folder / "dist" / "built").exists()


def _build(folder: Path) -> None:
    lock = folder / "package-lock.json"
    installed = (
        lock.exists() and lock.read_bytes() == (_NODE_WORKER / "package-lock.json").read_bytes()
    )
    for name in ("src", "dist"):
        shutil.rmtree(folder / name, ignore_errors=True)
    for each in _sources():
        copy = folder / each.relative_to(_NODE_WORKER)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each, copy)
    if not installed or not (folder / "node_modules" / ".bin" / "tsc").exists():
        _install(folder)
    subprocess.run(("npx", "--no-install", "tsc"), cwd=folder, check=True, timeout=300)
    (folder / "dist" / "built").touch()


def _install(folder: Path) -> None:
    words = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
    run = subprocess.run(
        words, cwd=folder, capture_output=True, check=False, text=True, timeout=300
    )
    if run.returncode:
        pytest.skip(
            f"the modules of the TypeScript worker cannot be installed: {run.stderr[-300:]}"
        )


def _python() -> WorkerUnderTest:
    words = ("-m", "streams.cli", "worker", "--app", "support.link_suite.app:app")
    environ = {"PYTHONPATH": str(_ROOT / "tests")}
    return WorkerUnderTest("python", (sys.executable, *words), _ROOT, environ=environ)


KINDS = {"typescript": Kind(_node, _no_node), "python": Kind(_python)}
