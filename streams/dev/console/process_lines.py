"""Which lines of the processes' logs are shown: what is wrong, and what the application prints."""

from __future__ import annotations

from collections.abc import Iterator

from streams.dev.console.log_line import LogLine, parse
from streams.dev.console.screen import Line
from streams.dev.supervisor import NAME as SUPERVISOR

DELIVERED_AGAIN, REFUSED = "delivered again", "delivery refused"
"""Texts of the ingress's debug lines, of which `dev` shows its own form."""
DRAINING = "draining"
"""The text of the line that a worker writes when it stops and still runs jobs."""

_WRONG = {"warning": "warning", "error": "error", "critical": "error"}


class ProcessLines:
    """Chooses the lines to show of all processes; remembers what each one wrote last."""

    def __init__(self) -> None:
        self._level: dict[str, str] = {}
        self.started = False
        """Until then, refused deliveries are those by which `dev` asks whether a source is live."""

    def shown(self, name: str, text: str) -> Iterator[Line]:
        """The lines to show for one line of a process: none, one, or a traceback's."""
        if name == SUPERVISOR:
            yield Line("dev", text, "warning")
            return
        log = parse(text)
        if log is None:
            yield self._printed(name, text)
            return
        self._level[name] = _WRONG.get(log.level, "info")
        if log.level in _WRONG:
            yield Line(name, log.text, _WRONG[log.level])
        elif log.event in (DELIVERED_AGAIN, REFUSED) and name.startswith("ingress-"):
            if self.started:
                yield _of_ingress(log)
        elif log.event == DRAINING and name.startswith("worker-"):
            waits = f"{name} waits up to {log.fields.get('seconds')} s for what it runs"
            yield Line("dev", f"{waits}: {log.fields.get('jobs')}")
        elif "run_id" in log.fields and name.startswith("worker-"):
            yield Line(name, log.text)

    def _printed(self, name: str, text: str) -> Line:
        """A line without a level belongs to the one before it, as a traceback does."""
        if text.startswith("error: "):
            self._level[name] = "error"
        level = self._level.get(name, "info")
        return Line(name, text, level if level != "info" or name.startswith("worker-") else "error")


def _of_ingress(log: LogLine) -> Line:
    place = f"{log.fields.get('tenant_id')}/{log.fields.get('source')}"
    before = log.fields.get("left_out", "0")
    more = f"; {before} like it were left out" if before != "0" else ""
    if log.event == REFUSED:
        return Line("event", f"refused    {place}: {log.fields.get('reason')}{more}", "warning")
    return Line("event", f"duplicate  {log.fields.get('event_id')} {place}{more}")
