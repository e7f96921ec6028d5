"""The resources of the API: one line for each, from which its tables, calls and commands follow.

A module of a resource's folder has its role by its name (see `streams/api/__init__.py`). So a new
module needs no line anywhere, and a new resource needs one line here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

Role = Literal["table", "http"]


@dataclass(frozen=True, slots=True)
class Resource:
    """A folder of `streams/api/`; `group` is that of its commands: `tidegate GROUP ...`."""

    folder: str
    group: str | None = None


RESOURCES = (
    Resource("tokens", "tokens"),
    Resource("session", "sessions"),
    Resource("tenants", "tenants"),
    Resource("sources", "sources"),
    Resource("endpoints", "endpoints"),
    Resource("vault", "vault"),
    Resource("jobs", "jobs"),
    Resource("job_types", "job-types"),
    Resource("live"),
    Resource("overview"),
    Resource("backlog"),
    Resource("workflows", "workflows"),
    Resource("limits", "limits"),
    Resource("pauses"),
    Resource("workers", "workers"),
    Resource("effects", "effects"),
    Resource("steps"),
    Resource("artifacts"),
    Resource("approvals", "approvals"),
    Resource("schedules", "schedules"),
    Resource("dead_letters", "dlq"),
    Resource("causes", "causes"),
    Resource("quarantine", "quarantine"),
    Resource("rejections", "rejections"),
    Resource("duplicates"),
    Resource("events", "events"),
    Resource("timelines"),
    Resource("replays", "replays"),
    Resource("bulk", "bulk"),
    Resource("deliveries", "deliveries"),
    Resource("audit", "audit"),
    Resource("schemas"),
    Resource("openapi", "api"),
)


def modules(role: Role) -> Iterator[ModuleType]:
    """Import and yield the modules of a role: `table.py`, `*_table.py`; `http.py`, `http_*.py`."""
    from importlib import import_module
    from pkgutil import iter_modules

    for resource in RESOURCES:
        for found in iter_modules([str(Path(__file__).parent / resource.folder)]):
            words = found.name.split("_")
            if role in (words[0], words[-1]):
                yield import_module(f"streams.api.{resource.folder}.{found.name}")


def command_groups() -> dict[str, str]:
    """Return where each group of commands is, as `module:name`; this imports none of them."""
    return {
        resource.group: f"streams.api.{resource.folder}.cli:{resource.group.replace('-', '_')}"
        for resource in RESOURCES
        if resource.group is not None
    }
