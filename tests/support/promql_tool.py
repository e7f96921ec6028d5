"""Prometheus's own parser and engine, as the program that `tests/support/promql/` is the source of.

`make chart-tools` builds it into the cache.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from streams.broker.jars import cache_dir
from support.helm_tools import NoTools, go

SOURCE = Path(__file__).parent / "promql"


@dataclass(frozen=True, slots=True)
class Selector:
    """A metric in an expression, the values that labels must have, and all labels that are used."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]
    """Label, operator (`=`, `!=`, `=~`, `!~`) and value."""
    labels: frozenset[str]


def program() -> Path:
    """The built program.

    Raises:
        NoTools: it is not built.
    """
    if not (path := _path()).exists():
        raise NoTools("the tests of alerts and dashboards need a tool: run `make chart-tools`")
    return path


def build() -> None:
    """Build the program, unless it is there.

    Raises:
        NoTools: there is no Go, or it failed.
    """
    if not _path().exists():
        go(SOURCE, "build", "-trimpath", "-ldflags=-s -w", "-o", str(_path()), ".")


def failures(tests: Path) -> str:
    """Carry out unit tests of alerts, a file in the format of promtool; returns what failed."""
    done = subprocess.run([program(), "test", tests], text=True, capture_output=True, check=False)
    return done.stderr


def selectors(expressions: list[str]) -> list[list[Selector]]:
    """What each expression selects.

    Raises:
        ValueError: one is not valid; the message names it.
    """
    done = subprocess.run(
        [program(), "selectors"],
        input=json.dumps(expressions),
        text=True,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr)
    return [
        [
            Selector(
                each["metric"],
                tuple((m["label"], m["op"], m["value"]) for m in each["matchers"]),
                frozenset(each["labels"]),
            )
            for each in found or []
        ]
        for found in json.loads(done.stdout)
    ]


def _path() -> Path:
    files = sorted(path for path in SOURCE.iterdir() if path.suffix in {".go", ".mod", ".sum"})
    source = b"".join(path.read_bytes() for path in files)
    return cache_dir().parent / f"promql-{hashlib.sha256(source).hexdigest()[:12]}"


if __name__ == "__main__":
    try:
        build()
    except NoTools as failure:
        sys.exit(f"error: {failure}")
