"""The screens: one line for each, from which its pages and the navigation follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


@dataclass(frozen=True, slots=True)
class Screen:
    """A folder of `streams/console/`; `key` opens it from the keyboard, after a `g`."""

    folder: str
    title: str
    path: str
    group: str
    key: str


SCREENS = (
    Screen("overview", "Overview", "/console", "", "o"),
    Screen("causes", "Causes", "/console/causes", "Needs somebody", "c"),
    Screen("dead_letters", "Dead letters", "/console/dlq", "Needs somebody", "d"),
    Screen("reviews", "Reviews", "/console/reviews", "Needs somebody", "v"),
    Screen("approvals", "Approvals", "/console/approvals", "Needs somebody", "a"),
    Screen("quarantine", "Quarantine", "/console/quarantine", "Needs somebody", "q"),
    Screen("events", "Events", "/console/events", "Work", "e"),
    Screen("jobs", "Jobs", "/console/jobs", "Work", "j"),
    Screen("workflows", "Workflows", "/console/workflows", "Work", "w"),
    Screen("schedules", "Schedules", "/console/schedules", "Work", "s"),
    Screen("limits", "Limits", "/console/limits", "Work", "l"),
    Screen("workers", "Workers", "/console/workers", "Work", "m"),
    Screen("job_types", "Job types", "/console/job-types", "Work", "t"),
    Screen("endpoints", "Endpoints", "/console/endpoints", "Outgoing", "x"),
    Screen("deliveries", "Deliveries", "/console/deliveries", "Outgoing", "y"),
    Screen("bulk", "Bulk acts", "/console/bulk", "Acts", "b"),
    Screen("replays", "Replays", "/console/replays", "Acts", "r"),
    Screen("tenants", "Tenants", "/console/tenants", "Settings", "n"),
    Screen("tokens", "Tokens", "/console/tokens", "Settings", "k"),
    Screen("audit", "Audit", "/console/audit", "Settings", "u"),
)


def modules() -> Iterator[ModuleType]:
    """Import and yield the module `page` of each screen."""
    for screen in SCREENS:
        yield import_module(f"streams.console.{screen.folder}.page")
