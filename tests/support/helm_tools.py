"""Helm, and the definitions of the kinds that are not Kubernetes' own, from pinned Go modules.

`make chart-tools` installs both into the cache; `go.sum` and `crds.json` hold their checksums. No
machine needs them to run Tidegate: only the tests of the chart do.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams.broker.jars import cache_dir

PINNED = Path(__file__).parent / "helm"
_DONE = "done"


class NoTools(Exception):
    """The chart's tools are not installed, or cannot be; the message names the remedy."""


def directory() -> Path:
    """Where the tools of these pins are."""
    pins = "".join((PINNED / name).read_text() for name in ("go.mod", "crds.json"))
    return cache_dir().parent / f"chart-tools-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"


def helm() -> Path:
    """The program; `TIDEGATE_HELM` names another one, such as Helm 3.

    Raises:
        NoTools: it is not installed.
    """
    named = os.environ.get("TIDEGATE_HELM")
    return Path(named) if named else _installed() / "helm"


def crds() -> Path:
    """The directory of the custom resources' definitions.

    Raises:
        NoTools: they are not installed.
    """
    return _installed() / "crds"


def require(installed: Callable[[], Path] | None = None) -> None:
    """Skip a test if the tools are absent; fail it if `TIDEGATE_REQUIRE_ALL` is set, as in CI."""
    try:
        (installed or _installed)()
    except NoTools as error:
        if os.environ.get("TIDEGATE_REQUIRE_ALL"):
            raise
        pytest.skip(str(error))


def install() -> None:
    """Build Helm and fetch the definitions, unless both are there.

    Raises:
        NoTools: there is no Go, or it failed.
    """
    into = directory()
    if (into / _DONE).exists():
        return
    shutil.rmtree(into, ignore_errors=True)
    (into / "crds").mkdir(parents=True)
    flags = ["-trimpath", "-ldflags=-s -w", "-o", str(into / "helm")]
    go(PINNED, "build", *flags, "helm.sh/helm/v4/cmd/helm")
    for pin in json.loads((PINNED / "crds.json").read_text()):
        for name in pin["files"]:
            shutil.copy(_module(pin) / name, into / "crds")
    (into / _DONE).touch()


def _installed() -> Path:
    if not (directory() / _DONE).exists():
        raise NoTools("the tests of the chart need its tools: run `make chart-tools`")
    return directory()


def _module(pin: dict[str, Any]) -> Path:
    found = json.loads(go(PINNED, "mod", "download", "-json", pin["module"]))
    if found["Sum"] != pin["sum"]:
        raise NoTools(f"{pin['module']} has the checksum {found['Sum']}, not {pin['sum']}")
    return Path(found["Dir"])


def go(module: Path, *arguments: str) -> str:
    """What Go prints in the directory of a module.

    Raises:
        NoTools: there is no Go, or it failed.
    """
    if shutil.which("go") is None:
        raise NoTools("the tests of the chart need Go 1.26.7 or newer, to build their tools")
    done = subprocess.run(
        ["go", *arguments], cwd=module, text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise NoTools(f"go {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    try:
        install()
    except NoTools as failure:
        sys.exit(f"error: {failure}")
    print(f"the chart's tools are in {directory()}")
