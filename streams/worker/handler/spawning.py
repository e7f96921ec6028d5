"""The part of a handler's context that asks for other jobs."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn

if TYPE_CHECKING:
    from streams.worker.handler.children import ChildCall, Children
    from streams.worker.handler.gathering import Gathering, OnFailure
    from streams.worker.handler.wait_calls import Span
    from streams.worker.handler.waits import Pending

OnParent = Literal["cancel", "abandon"]


class Spawning:
    """Jobs that a job asks for are its children: of its tenant, its workflow and its partition.

    A call makes one job, however often the run repeats; `key` tells calls of one type apart, as
    those of steps. A child runs as any job of its type does, by its own attempts. If the parent
    ends without success, its children are cancelled, and those below them, unless they were asked
    for with `on_parent="abandon"`; if it succeeds, they go on.
    """

    def __init__(self, children: Children, gathering: Gathering) -> None:
        self._children = children
        self._gathering = gathering

    def enqueue(
        self,
        type: str,
        input: object = None,
        *,
        key: str | None = None,
        priority: str | None = None,
        delay: Span | None = None,
        on_parent: OnParent = "cancel",
        wait: bool = False,
    ) -> Coroutine[Any, Any, Any]:
        """Make a job: `child = await ctx.enqueue("refund", {...})`; `await child` for its result.

        `input` is JSON. The priority is that of this job unless given, and `delay` seconds pass
        before the job is ready. With `wait=True` the call itself returns the result.

        Raises:
            ChildConflict: the call asked for a job with another input before.
            ChildFailed: with `wait=True`, the job did not succeed.
            AmbiguousStep: another call of this type and key is in flight in this branch.
            PermanentError: the input is no JSON, or too many jobs are above this one.
        """
        asked = self.child(
            type, input, key=key, priority=priority, delay=delay, on_parent=on_parent
        )
        return self._children.enqueue(asked, wait)

    def child(
        self,
        type: str,
        input: object = None,
        *,
        key: str | None = None,
        priority: str | None = None,
        delay: Span | None = None,
        on_parent: OnParent = "cancel",
    ) -> ChildCall:
        """One job of the list for `gather`; the arguments are those of `enqueue`."""
        from streams.worker.handler.children import child_call

        return child_call(type, input, key, priority, delay, on_parent)

    def gather(
        self,
        jobs: Sequence[ChildCall],
        *,
        key: str,
        limit: int = 50,
        on_failure: OnFailure = "fail",
        min_success: int | None = None,
        tolerated: int | None = None,
        timeout: Span | None = None,
    ) -> Pending:
        """Make a list of jobs, `limit` at a time, and wait for all; gives their results in order.

        The list must be the same in each run: make it of the input, or in a step. `key` names the
        gather in its branch. With `on_failure="fail"` the first job that does not succeed ends the
        others, and raises. With "collect" each place of the result is an `Outcome(status, result,
        error, job_id)`; more than `tolerated` failures, or too few successes for `min_success`,
        end the others and raise all the same.

        Raises:
            ChildFailed: too many of the jobs did not succeed; it names the one that decided.
            ChildConflict: another list was gathered under this key.
            WaitTimeout: not all have ended within `timeout`; it says how many were made. The list
                goes on until the job that gathers it ends.
            PermanentError: the list is too long, or an argument cannot be used.
        """
        from streams.worker.handler.gathering import Bounds

        bounds = Bounds(limit, on_failure, min_success, tolerated)
        return self._gathering.gather(jobs, key, bounds, timeout)

    def continue_as_new(self, input: object) -> NoReturn:
        """End this run, and begin the job anew with another input: for loops without an end.

        The next incarnation has a history of its own: no steps, no waits, and effects of its own
        under the same keys. It has no event's body: take along what it needs. Whoever waits for
        the job goes on waiting, and its children go on. Do not catch what this raises. Write
        `return ctx.continue_as_new(...)`: readers and linters then see that nothing follows.
        """
        self._children.continue_as_new(input)
