"""The part of a handler's context that waits."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Never

from streams.errors import PermanentError

if TYPE_CHECKING:
    from streams.serde.records import Approvers, OnTimeout
    from streams.worker.handler.approvals import Approvals
    from streams.worker.handler.wait_calls import Since, Span, WaitCalls
    from streams.worker.handler.waits import Pending, Waits


class Waiting:
    """Waits are values: `await` one, or give several to `first` or `all`.

    While a job waits it has no slot, no lease and no attempt under way. The run ends, and a later
    one, perhaps in another process and days later, begins the handler again: finished steps,
    effects and waits return what they left. Times that a wait counts from are those of its first
    run. `name` and `key` tell waits apart as those of steps do.
    """

    def __init__(self, waits: Waits, calls: WaitCalls, approvals: Approvals) -> None:
        self._waits = waits
        self._wait_calls = calls
        self._approvals = approvals

    def sleep(
        self,
        seconds: Span | None = None,
        *,
        until: datetime | None = None,
        name: str = "sleep",
        key: str | None = None,
    ) -> Pending:
        """Wait for a time, at most 366 days; it gives None."""
        return self._wait_calls.sleep(seconds, until, name, key)

    def wait_for_event(
        self,
        match: Mapping[str, Any],
        *,
        timeout: Span | None = None,
        since: Since = "job",
        consume: Literal["all", "one"] = "all",
        name: str = "event",
        key: str | None = None,
    ) -> Pending:
        """Wait for an event of the job's tenant; it gives the event as `ctx.event` is one.

        `match` has `source` and `event_type` (globs), `subject`, `attributes` (equalities, of which
        or of `subject` one must be given) and `where` (JMESPath on the event's fields). Events
        count `since` the job began, from now on, or since a time. Those before the wait are found
        if the topology names their type under `waits_for` of the job type. In a loop, a wait of
        the same name and match begins behind the event that the last one got. With `consume="one"`
        an event goes to one such wait only, the one that began first.

        Raises:
            WaitTimeout: no such event came within `timeout`.
            WaitRefused: `since` reaches back further than events are kept.
        """
        return self._wait_calls.event(match, timeout, since, consume, name, key)

    def wait_for_job(
        self, job_id: str, *, timeout: Span | None = None, name: str = "job", key: str | None = None
    ) -> Pending:
        """Wait until another job of the tenant has ended; it gives the job's result.

        Raises:
            JobFailed: it ended without success.
            WaitTimeout: it did not end within `timeout`.
            WaitRefused: the tenant has no such job.
        """
        return self._wait_calls.job(job_id, timeout, name, key)

    def approval(
        self,
        key: str,
        *,
        prompt: str = "",
        effects: Sequence[Mapping[str, Any]] = (),
        timeout: Span | None = None,
        on_timeout: OnTimeout = "reject",
        approvers: Approvers = "any",
        quorum: int = 1,
    ) -> Pending:
        """Wait for people to approve or reject; it gives a `Decision`.

        `effects` are what is asked for: `{"tool", "key", "arguments"}`. The ledger then begins
        these effects with the approved arguments alone. `key` names the approval in the job.
        Without a decision within `timeout`, the decision is a rejection or, with
        `on_timeout="raise"`, an error. `quorum` people must approve, and one may reject. With
        `approvers="not_submitter"`, whoever submitted the job may not decide.

        Raises:
            ApprovalExpired: with `on_timeout="raise"`, nobody decided in time.
            WaitRefused: something else was asked under this key.
        """
        from streams.worker.handler.approvals import Terms
        from streams.worker.handler.wait_calls import span_ms

        terms = Terms(span_ms(timeout, "timeout"), on_timeout, approvers, quorum)
        return self._approvals.asked(key, prompt, effects, terms)

    def listen(
        self,
        match: Mapping[str, Any],
        *,
        timeout: Span | None = None,
        since: Since = "now",
        consume: Literal["all", "one"] = "all",
        name: str = "event",
        key: str | None = None,
    ) -> Coroutine[Any, Any, Pending]:
        """Begin a wait before the handler does what causes the event: `w = await ctx.listen(...)`.

        The event is kept for the job from then on; `await w` returns it.
        """
        asked = self._wait_calls.event(match, timeout, since, consume, name, key)
        return self._waits.listen(asked)

    def first(self, /, *unnamed: Never, **waits: Pending) -> Coroutine[Any, Any, tuple[str, Any]]:
        """Wait for the first of several waits; returns its name and what it gives.

        The others are dropped.

        Raises:
            WaitTimeout, WaitRefused, JobFailed: the first that ended did so.
        """
        if unnamed or not waits:
            given = f"{len(unnamed)} waits have no name" if unnamed else "no wait is given"
            raise PermanentError(f"first: {given}: give each as name=wait, and one at least")
        _check_waits("first", waits)
        return self._waits.first(self._wait_calls.first(), waits)

    def all(self, *waits: Pending) -> Coroutine[Any, Any, list[Any]]:
        """Wait for all of several waits; returns what they give, in their order.

        Raises:
            WaitTimeout, WaitRefused, JobFailed: one of them did, and the others are dropped.
        """
        _check_waits("all", dict(enumerate(waits, 1)))
        return self._waits.all(waits)


def _check_waits(method: str, given: Mapping[Any, object]) -> None:
    from streams.worker.handler.waits import Pending

    for name, wait in given.items():
        if not isinstance(wait, Pending):
            raise PermanentError(
                f"{method}: {name}={wait!r} is no wait: give what a method such as `ctx.sleep` "
                "returns, and await `ctx.listen` first"
            )
