"""The build stage of the Containerfile, carried out without a container engine.

Its instructions run as they stand, except that `/opt` and `/source` are directories of the test,
and that pip may take packages from its cache; their hashes are checked there too. This cannot show
the base image and the second stage.
"""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "Containerfile"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, such as `RUN`, with the rest of its lines as one."""

    verb: str
    rest: str


def instructions(stage: int) -> list[Instruction]:
    """The instructions of one stage, counted from 0, without its FROM."""
    text = re.sub(r"^\s*#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    stages: list[list[Instruction]] = []
    for line in filter(str.strip, lines):
        verb, rest = line.split(maxsplit=1)
        if verb == "FROM":
            stages.append([])
        elif stages:
            stages[-1].append(Instruction(verb, rest))
    return stages[stage]


def copied() -> Iterator[str]:
    """The paths of the repository that the build copies."""
    for instruction in instructions(0):
        if instruction.verb == "COPY":
            yield from shlex.split(instruction.rest)[:-1]


def ignored(path: str) -> bool:
    """Whether `.dockerignore` keeps a path from the build: its last fitting line decides."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.lstrip("!")
        parents = [path, *map(str, Path(path).parents)]
        if not line.startswith("#") and any(fnmatch.fnmatch(part, pattern) for part in parents):
            verdict = not line.startswith("!")
    return verdict


def build(into: Path) -> Path:
    """Carry out the build stage; returns the directory that stands for `/opt`."""
    opt, source = into / "opt", into / "source"
    opt.mkdir(parents=True)
    source.mkdir()
    environment = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"}
    environment |= {"HOME": str(into), "PIP_CACHE_DIR": _pip_cache()}
    environment |= {"PIP_COMPILE": "0"}  # of thousands of modules, what is run compiles itself
    for instruction in instructions(0):
        if instruction.verb == "ENV":
            environment |= dict(pair.split("=", 1) for pair in shlex.split(instruction.rest))
            environment.pop("PIP_NO_CACHE_DIR", None)  # "0" would disable the cache as well
        elif instruction.verb == "COPY":
            _copy(shlex.split(instruction.rest), source)
        elif instruction.verb == "RUN":
            command = instruction.rest.replace("/opt/", f"{opt}/")
            done = subprocess.run(
                command,
                shell=True,
                cwd=source,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return opt


def _pip_cache() -> str:
    """The directory in which pip keeps what it has fetched for this user."""
    asked = [sys.executable, "-m", "pip", "cache", "dir"]
    env = {name: value for name, value in os.environ.items() if name != "PIP_NO_CACHE_DIR"}
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env=env)
    return done.stdout.strip()


def _copy(names: list[str], source: Path) -> None:
    *what, to = names
    for name in what:
        assert not ignored(name), f".dockerignore leaves out {name}"
        target = source / to
        if (ROOT / name).is_dir():
            skip = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, target, ignore=skip)
        else:
            target.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, target)
