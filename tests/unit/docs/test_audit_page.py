"""The page of the audit names each verb and each field of an entry."""

from __future__ import annotations

import re
from pathlib import Path

from streams.api.serving.call import call_of
from streams.api.serving.routes import routes
from streams.audit import commands
from streams.serde.records import AuditEntry

PAGE = (Path(__file__).resolve().parents[3] / "docs/audit.md").read_text()
OF_DECISIONS = {"approval.approve", "approval.reject", "schedule.pause", "schedule.resume"}
"""Those that a command's body tells apart."""


def first_cells(heading: str) -> list[str]:
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.split(heading, 1)[1].split("\n\n", 1)[0], re.M)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def test_every_verb_is_listed() -> None:
    verbs = {*commands._VERBS.values(), *commands._DELIVERY_VERBS.values(), *OF_DECISIONS}
    listed = first_cells("| verb | the command |\n")
    assert listed == sorted(listed)
    assert set(listed) == verbs


def test_every_verb_of_the_operators_own_changes_is_listed() -> None:
    listed = first_cells("| verb | what the operator changes |\n")
    assert listed == sorted(listed)
    calls = {c.verb for r in routes() if (c := call_of(getattr(r, "handler", None))) is not None}
    own = {"tenant", "source", "token", "vault", "limit", "bulk"}
    of_own = {verb for verb in calls if verb.partition(".")[0] in own} - {"source.sign"}
    assert of_own <= set(listed) <= calls


def test_every_field_that_is_shown_is_explained() -> None:
    fields = set(AuditEntry.__dataclass_fields__) - {"id", "previous"}
    assert set(first_cells("| field | means |\n")) == fields
