"""What a check says: one sentence, and one remedy unless all is well."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Status = Literal["ok", "warn", "fail", "skipped"]

AREAS = (
    "settings",
    "versions",
    "link",
    "cluster",
    "topics",
    "rights",
    "stages",
    "clocks",
    "operator",
)
"""In the order in which they are shown."""

_SECRET = "[secret]"  # noqa: S105
_SHORTEST_SECRET = 6
"""A shorter one is left in texts: taking it out would show where words contain it."""
_URL_LOGIN = re.compile(r"(?<=://)[^/\s]*@|\b[^\s/:@]+:[^\s/@]+@")
"""Of a URL, also where its scheme was forgotten."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """What could not be looked at: `why` is a sentence without its end, `remedy` what helps."""

    why: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found; a remedy is a command to paste, or a setting to change."""

    area: str
    check: str
    status: Status
    text: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A check by its area and name; it makes findings."""

    area: str
    name: str

    def ok(self, text: str) -> Finding:
        return Finding(self.area, self.name, "ok", text)

    def warn(self, text: str, remedy: str) -> Finding:
        return Finding(self.area, self.name, "warn", text, remedy)

    def fail(self, text: str, remedy: str) -> Finding:
        return Finding(self.area, self.name, "fail", text, remedy)

    def skipped(self, why: str, remedy: str | None = None) -> Finding:
        """The check could not look: this is never `ok`."""
        return Finding(self.area, self.name, "skipped", why, remedy)

    def unseen(self, found: Unseen) -> Finding:
        """The check has nothing to judge."""
        return self.skipped(found.why, found.remedy)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings in the order of the areas.

    `reached` says whether any broker answered, or, for a worker, any owner of partitions.
    """

    findings: tuple[Finding, ...]
    reached: bool = True

    @property
    def counts(self) -> Counter[str]:
        return Counter(finding.status for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0: nothing fails; 3: something does; 1: none was reached."""
        if not self.reached:
            return 1
        return 3 if self.counts["fail"] else 0


def report(findings: Iterable[Finding], secrets: Collection[str], *, reached: bool) -> Report:
    """The findings in order, without any of the secrets."""
    ordered = sorted(findings, key=lambda finding: AREAS.index(finding.area))
    return Report(tuple(_cleared(ordered, secrets)), reached)


def _cleared(findings: Iterable[Finding], secrets: Collection[str]) -> Iterator[Finding]:
    for finding in findings:
        remedy = finding.remedy and without_secrets(finding.remedy, secrets)
        yield replace(finding, text=without_secrets(finding.text, secrets), remedy=remedy)


def without_secrets(text: str, secrets: Collection[str]) -> str:
    """A text without these secrets, and without the logins of its URLs."""
    text = _URL_LOGIN.sub("", text.encode(errors="replace").decode())
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, _SECRET)
    return text


def named(names: Iterable[str], most: int = 3) -> str:
    """Names in order, of which at most some are shown: `a, b, c and 4 more`."""
    ordered = sorted(names)
    more = len(ordered) - most
    shown = ", ".join(ordered[:most])
    return f"{shown} and {more} more" if more > 0 else shown


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number and its noun: `1 topic`, `3 topics`."""
    return f"{number} {one if number == 1 else several or one + 's'}"
