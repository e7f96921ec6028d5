"""The waits that a handler can ask for, made of the arguments of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

from streams.errors import LONGEST_WAIT_SECONDS, PermanentError
from streams.event_match import match_of
from streams.serde.records import EventInfo, StepResult, Wait
from streams.worker.handler.history import Call, History
from streams.worker.handler.values import digest, from_json
from streams.worker.handler.waits import Pending, Waits

Span = float | timedelta
Since = Literal["job", "now"] | datetime


class WaitCalls:
    """Numbers the waits of one run in the order in which the handler asks for them."""

    def __init__(self, history: History, waits: Waits) -> None:
        self._history = history
        self._waits = waits
        self._seen: dict[tuple[str, str, bytes], StepResult] = {}  # by branch, name and match

    def sleep(
        self, seconds: Span | None, until: datetime | None, name: str, key: str | None
    ) -> Pending:
        """See `Context.sleep`."""
        if (seconds is None) == (until is None):
            raise PermanentError("sleep: give seconds or until, and not both")
        call = self._call(name, key, "time", {})
        wait = _wait(call, timeout_ms=span_ms(seconds, "sleep"), until=_moment_ms(until, "until"))
        return self._waits.pending(call, wait, _nothing)

    def event(
        self,
        match: Mapping[str, Any],
        timeout: Span | None,
        since: Since,
        consume: Literal["all", "one"],
        name: str,
        key: str | None,
    ) -> Pending:
        """See `Context.wait_for_event`."""
        if consume not in ("all", "one"):
            raise PermanentError(f'consume={consume!r}: use "all" or "one"')
        text = match_of(match).text()
        call = self._call(name, key, "event", {"match": text, "consume": consume})
        wait = _wait(
            call,
            match=text,
            since=_since(since),
            takes_it_alone=consume == "one",
            timeout_ms=span_ms(timeout, "timeout"),
        )
        given = partial(self._event_given, call.id)
        return self._waits.pending(call, self._behind_the_last(call, wait), given)

    def job(self, job_id: str, timeout: Span | None, name: str, key: str | None) -> Pending:
        """See `Context.wait_for_job`."""
        if not isinstance(job_id, str) or not job_id or "\0" in job_id:
            raise PermanentError(f"wait_for_job: {job_id!r} is no job's id")
        call = self._call(name, key, "job", {"job_id": job_id})
        wait = _wait(call, job_id=job_id, timeout_ms=span_ms(timeout, "timeout"))
        return self._waits.pending(call, wait, _same)

    def first(self) -> Call:
        """The decision which of several waits came first."""
        return self._call("first", None, "first", {})

    def _call(self, name: str, key: str | None, kind: str, what: Mapping[str, Any]) -> Call:
        evidence = digest({"kind": kind, **what}, f"wait {name}")
        return self._history.call(name, kind=kind, digest=evidence, key=key, is_value=True)

    def _behind_the_last(self, call: Call, wait: Wait) -> Wait:
        """The wait, behind what the last one of its name and match had seen."""
        place = call.branch, call.name, call.digest
        begins, left = self._history.passed(call), self._history.found(call)
        if begins is None or "number" not in from_json(begins.value):
            begins = self._seen.get(place) or self._history.seen(call)
        seen = left if left is not None and left.value is not None else begins
        if seen is not None:
            self._seen[place] = seen
        if begins is None or wait.since == "now":
            return wait
        at = from_json(begins.value)
        number, since, event_id = int(at["number"]), str(at["at"]), str(at["after_event"])
        return replace(wait, behind=number, since=since, after_event=event_id)

    async def _event_given(self, wait: str, value: Any) -> EventInfo:
        event = EventInfo(**value["event"])
        self._waits.bodies[event.event_id] = wait
        return event


async def _nothing(_: Any) -> None:
    return None


async def _same(value: Any) -> Any:
    return value


def _wait(call: Call, **fields: Any) -> Wait:
    return Wait(call.id, call.kind, call.position, call.digest, call.failed_before, **fields)  # type: ignore[arg-type]


def span_ms(span: Span | None, name: str) -> int | None:
    if span is None:
        return None
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_WAIT_SECONDS:
        raise PermanentError(f"{name}={span!r} is no time from 0 to {LONGEST_WAIT_SECONDS:,} s")
    return round(seconds * 1000)


def _moment_ms(moment: datetime | None, name: str) -> int | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise PermanentError(f"{name}={moment!r}: use a datetime with a time zone")
    return round(moment.timestamp() * 1000)


def _since(since: Since) -> str:
    if since in ("job", "now"):
        return str(since)
    if isinstance(since, datetime):
        return str(_moment_ms(since, "since"))
    raise PermanentError(f'since={since!r}: use "job", "now" or a datetime with a time zone')
