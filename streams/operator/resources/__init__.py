"""What the operator shows: a module for each topic with its table, its queries and its JSON."""

from __future__ import annotations

from streams.operator.resources import (
    dead_letters,
    duplicates,
    effects,
    held,
    jobs,
    progress,
    quarantine,
    rejections,
    steps,
    tenants,
)

TABLES = tuple(
    resource.TABLE
    for resource in (
        jobs, held, progress, steps, effects, dead_letters, tenants, quarantine, rejections,
        duplicates,
    )
)  # fmt: skip
"""All tables of the read model; each topic has one."""

LISTINGS = (
    held.LISTING, dead_letters.LISTING, quarantine.LISTING, rejections.LISTING, duplicates.LISTING,
)  # fmt: skip
"""All lists that the API serves without code of their own."""
