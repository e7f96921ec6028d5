"""Policies: whether an effect may begin, by who asks for what. The first that matches decides.

A new attribute of an effect is a field of `Asked` and, under the same name, a glob of `Policy`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import Literal

from streams.topology.declared import Declared, Name, Text


@dataclass(frozen=True, slots=True)
class Asked:
    """An effect that is asked for; `principal` is for whom its job was made."""

    tool: str
    tenant: str
    job_type: str
    principal: str


ATTRIBUTES = tuple(each.name for each in fields(Asked))


@dataclass(frozen=True, slots=True)
class Policy(Declared):
    """One line of `policies`; each attribute is a glob."""

    name: Name
    decision: Literal["allow", "deny", "approve"]
    tool: Text = "*"
    tenant: Text = "*"
    job_type: Text = "*"
    principal: Text = "*"

    def matches(self, asked: Asked) -> bool:
        return all(fnmatchcase(getattr(asked, a), getattr(self, a)) for a in ATTRIBUTES)


def decisive(policies: Iterable[Policy], asked: Asked) -> Policy | None:
    """The policy that decides about an effect; None if none does, and it is allowed."""
    return next((policy for policy in policies if policy.matches(asked)), None)
