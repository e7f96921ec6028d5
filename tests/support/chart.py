"""The Helm chart as its tests see it: rendered, and parsed."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from support import helm_tools

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "tidegate"
TESTS = ROOT / "tests" / "unit" / "chart"
BASE = TESTS / "base.yaml"
CASES = sorted((TESTS / "cases").glob("*.yaml"))
"""Files of values, each laid over `base.yaml`; the golden output is of the same name."""

Resource = dict[str, Any]


def run(verb: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm on the chart."""
    release = () if verb == "lint" else ("tide",)
    kubernetes = ("--kube-version", "1.34.0") if verb == "template" else ()
    command = [helm_tools.helm(), verb, *release, CHART, *kubernetes, *arguments]
    words = [str(part) for part in command]
    return subprocess.run(words, text=True, capture_output=True, check=False)


@cache
def rendered(*values: Path) -> str:
    """As `output`, for files that do not change."""
    return output(*values)


def output(*values: Path) -> str:
    """The objects of a release named `tide` with these values over the base's."""
    files = [option for path in (BASE, *values) for option in ("--values", path)]
    done = run("template", *files, "--namespace", "hooks")
    assert done.returncode == 0, done.stderr
    return done.stdout


def resources(text: str) -> list[Resource]:
    """The objects in a rendered text."""
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


def of_kind(found: list[Resource], kind: str) -> dict[str, Resource]:
    """The objects of one kind, by name."""
    return {each["metadata"]["name"]: each for each in found if each["kind"] == kind}


def pods(found: list[Resource]) -> dict[str, Resource]:
    """The pod templates of all workloads and jobs, by name of the workload."""
    kinds = ("Deployment", "StatefulSet", "Job")
    return {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in found
        if each["kind"] in kinds
    }
