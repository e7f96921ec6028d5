"""The output for people: phases and counts during the run, one table at the end, all on stderr.

With `--json`, standard output gets the one object and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from streams.demo.verdict.evidence import Evidence
from streams.demo.verdict.judge import Verdict

_TITLES = {
    "G1": "an accepted event is kept and has one job",
    "G2": "no side effect twice",
    "G3": "tenants stay apart",
    "G4": "schedules fire once, never early",
    "G5": "every job ends or waits visibly",
    "G6": "local state is the fold of its changelog",
    "G7": "outgoing deliveries end visibly",
    "G8": "it moves again after every kill",
}
_SHOWN_VIOLATIONS = 20
_EVERY_SECONDS = 2.0


class Report:
    """Writes to standard error; the table goes to standard output, unless that is for JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._result = self._console if as_json else Console(highlight=False)
        self._began = time.monotonic()
        self._said = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def phase(self, text: str) -> None:
        """Report a step of the demo that begins, or another event worth a line."""
        self._console.print(f"[dim]{self.seconds:6.1f} s[/dim]  {text}", soft_wrap=True)
        self._said = time.monotonic()

    def progress(self, text: Callable[[], str]) -> None:
        """Show counts during a step, every two seconds."""
        if time.monotonic() - self._said >= _EVERY_SECONDS:
            self.phase(text())

    def result(self, evidence: Evidence, verdict: Verdict, figures: dict[str, Any]) -> None:
        """Show the tables, then every violation and shortcoming by name."""
        self._result.print(_counts(figures))
        if evidence.kills:
            self._result.print(_kills(evidence))
        self._result.print(_guarantees(verdict))
        for name, finding in verdict.findings.items():
            for violation in finding.violations[:_SHOWN_VIOLATIONS]:
                self._console.print(f"[red]{name} broken:[/red] {violation}", soft_wrap=True)
            more = len(finding.violations) - _SHOWN_VIOLATIONS
            if more > 0:
                self._console.print(f"[red]{name} broken:[/red] and {more} more")
        for shortcoming in verdict.shortcomings[:_SHOWN_VIOLATIONS]:
            self._console.print(f"[red]not shown:[/red] {shortcoming}", soft_wrap=True)


def _counts(figures: dict[str, Any]) -> Table:
    table = Table(
        box=None, pad_edge=False, title="The incident, acted out again", title_justify="left"
    )
    table.add_column("")
    before = figures["before"]
    if before:
        table.add_column("before", justify="right")
    table.add_column("Tidegate", justify="right", style="bold")
    rows = [
        ("distinct events", "events"),
        ("deliveries", "deliveries"),
        ("answered 202 accepted", "accepted"),
        ("answered 200 duplicate", "duplicates"),
        ("jobs", "jobs"),
        ("jobs succeeded", "jobs_succeeded"),
        ("side effects executed", "effects_executed"),
        ("duplicate side effects", "duplicate_effects"),
        ("repeats under the tool's own key", "same_key_repeats"),
        ("lost events", "lost_events"),
        ("cross-tenant reads", "cross_tenant_reads"),
        ("outgoing deliveries", "outgoing"),
        ("delivered", "outgoing_delivered"),
        ("parked or dead, visibly", "outgoing_parked"),
        ("attempts to deliver", "outgoing_attempts"),
        ("repeats under one webhook-id", "outgoing_repeats"),
        ("processes killed at work", "kills"),
        ("answer p50, ms", "ack_p50_ms"),
        ("answer p99, ms", "ack_p99_ms"),
        ("answer to handler p50, ms", "start_p50_ms"),
        ("answer to handler p99, ms", "start_p99_ms"),
        ("... waiting for a slot, p50", "queue_p50_ms"),
        ("... in the pipeline, p50", "pipeline_p50_ms"),
        ("seconds in all", "seconds"),
    ]
    for title, key in rows:
        beside = [_shown(before.get(key))] if before else []
        table.add_row(title, *beside, _shown(figures[key]))
    return table


def _kills(evidence: Evidence) -> Table:
    table = Table(
        "SIGKILL",
        "in flight",
        "moved on after",
        box=None,
        pad_edge=False,
        title="\nKilled",
        title_justify="left",
    )
    for kill in evidence.kills:
        after = kill.recovered_after
        shown = "never" if after is None else f"{after:.1f} s"
        table.add_row(kill.process, kill.in_flight, shown)
    return table


def _guarantees(verdict: Verdict) -> Table:
    table = Table(
        box=None,
        pad_edge=False,
        title="\nGuarantees, checked from the outside",
        title_justify="left",
    )
    table.add_column("")
    table.add_column("")
    for name in ("checked", "violations"):
        table.add_column(name, justify="right")
    table.add_column("")
    for name, finding in verdict.findings.items():
        if not finding.checked:
            state = "[yellow]not exercised[/yellow]"
        else:
            state = "[red]BROKEN[/red]" if finding.violations else "[green]held[/green]"
        counts = f"{finding.checked:,}", f"{len(finding.violations):,}"
        table.add_row(name, _TITLES[name], *counts, state)
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,}"
