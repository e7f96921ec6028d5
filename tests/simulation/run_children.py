"""What a run of a tree asks for, by the product's own calls: jobs, their ends, and a next life."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from support.tree_script import TreeScript

from simulation.handlers import root_of
from simulation.outside import Violation
from simulation.run_asking import ask
from simulation.run_calls import Answered, at_once, may_begin, sleep
from simulation.tree_jobs import GATHER, enqueued, gathered, next_input, script_of
from streams.errors import ChildFailed, PermanentError
from streams.serde.ids import child_job_id, new_id
from streams.serde.records import (
    AddChildren,
    ChildSpec,
    CommandBody,
    Enqueue,
    ReadChildren,
    Reply,
    SealGather,
)
from streams.serde.step_ids import CHILD, gathered_id
from streams.worker.handler.artifacts import Artifacts
from streams.worker.handler.children import Child, ChildCall, Children, Whose
from streams.worker.handler.gathering import Bounds, Gathering
from streams.worker.handler.run_result import describe
from streams.worker.handler.values import from_json
from streams.worker.handler.waits import Pending, Waits

if TYPE_CHECKING:
    from simulation.run_model import RunModel

_MOST = 100
_PAGE_JOBS = 2
Body = Callable[[Whose], CommandBody]


class Below:
    """The jobs that one run asks for; `_claim` is the question that it waits for."""

    def __init__(self, run: RunModel) -> None:
        session, nothing = cast("Any", run), cast("Any", None)
        waits = Waits(session, run.history, nothing, Artifacts(session, None), nothing)
        self._run = run
        self._product = Children(session, run.history, nothing, waits, nothing)
        self._gathering = Gathering(session, run.history, waits, self._product, _MOST)
        self._claim, self._reply = "", cast("Reply | None", None)

    def answered(self, reply: Reply) -> None:
        if self._claim == reply.claim_id:
            self._reply = self._reply or reply

    def grow(self) -> Answered:
        """All that a tree's handler asks for and awaits; the run goes on unless it has ended."""
        run = self._run
        script = script_of(root_of(run.lease), run.lease.input)
        children: dict[str, Child] = {}
        for name in script.calls:
            child = yield from self._enqueue(self._asked(script, name))
            if child is None:
                return False
            children[name] = child
        if script.nap and not (yield from sleep(run, script.nap)):
            return False
        if script.count and not (yield from self._gather(script)):
            return False
        for name in script.awaited:
            if not (yield from self._end_of(children[name], script)):
                return False
        if script.continues:
            yield from run.end("continued", "", result=next_input(script))
        return not script.continues

    def _asked(self, script: TreeScript, name: str) -> ChildCall:
        return enqueued(script, name, self._run.lease.tenant_id, self._run.lease.scope)

    def _enqueue(self, asked: ChildCall) -> Generator[None, None, Child | None]:
        """`Context.enqueue`; None: the run is over."""
        history = self._run.history
        call = history.call(asked.type, kind=CHILD, digest=asked.digest, key=asked.key)
        left = history.found(call)
        if left is None:
            if not (yield from may_begin(self._run, call)):
                return None
            made, spec = history.result(call, value="{}"), asked.spec(call.id, None)
            reply = yield from self._ask(lambda whose: Enqueue(*whose, made, spec))
            if reply is None:
                return None
            left = replace(made, value=reply.result)
            history.kept(left)
        history.ended(call)
        return self._product._child(call, from_json(left.value)["job_id"])

    def _end_of(self, child: Child, script: TreeScript) -> Answered:
        """`await child`."""
        if self._run.history.found(child.call) is None:
            if (yield from may_begin(self._run, child.call)):
                yield from self._run.park(child.asked)
            return False
        return (yield from self._given(child, script))

    def _gather(self, script: TreeScript) -> Answered:
        """`Context.gather`, whose results are read and held against what is known."""
        lease = self._run.lease
        asked = gathered(script, lease.tenant_id, lease.scope)
        bounds = Bounds(script.limit, "collect", None, script.tolerated)
        pending = self._gathering.gather(asked, GATHER, bounds, None)
        left = self._run.history.found(pending.call)
        if left is None:
            if not (yield from may_begin(self._run, pending.call)):
                return False
            if (yield from self._list(pending, asked, bounds)):
                yield from self._run.park(pending.asked)
            return False
        if left.raises is not None:
            return (yield from self._given(pending, script))
        names = [gathered_id(pending.call.id, n, None) for n in range(len(asked))]
        job_ids = tuple(child_job_id(lease.tenant_id, lease.scope, name) for name in names)
        reply = yield from self._ask(lambda whose: ReadChildren(*whose, job_ids))
        if reply is not None:
            self._run.worker.world.gathered(lease, from_json(reply.result), script)
        return reply is not None

    def _list(self, pending: Pending, asked: list[ChildCall], bounds: Bounds) -> Answered:
        """Seal the list and send its pages; a confused worker sends one first, or dies."""
        run, id_ = self._run, pending.call.id
        specs = list(self._gathering._specs(pending.call, asked, 0))
        if self._has_chance(0.2, "confused") and not (yield from self._add(id_, 0, specs)):
            return False
        tolerated = bounds.tolerates(len(asked))
        numbers = len(asked), bounds.limit, tolerated, bounds.min_success or 0
        digest = pending.call.digest
        reply = yield from self._ask(lambda whose: SealGather(*whose, id_, digest, *numbers))
        if reply is None:
            return False
        for first in range(from_json(reply.result)["listed"], len(specs), _PAGE_JOBS):
            if self._has_chance(0.05, "dies", first):
                run.worker.killed_by(run.lease)
                return False
            if not (yield from self._add(id_, first, specs)):
                return False
        return True

    def _add(self, id_: str, first: int, specs: list[ChildSpec]) -> Answered:
        page = tuple(specs[first : first + _PAGE_JOBS])
        run = self._run
        body = AddChildren(run.lease.run_id, id_, first, page)
        return (yield from run.said(body, lambda: run.held.valid_until))

    def _given(self, wait: Pending, script: TreeScript) -> Answered:
        """Go on behind a wait that has ended, unless it raises what the handler does not bear."""
        try:
            at_once(wait.given_now())
        except PermanentError as error:
            if isinstance(error, ChildFailed) and script.bears:
                return True
            yield from self._run.end("failed", describe(error, str))
            return False
        return True

    def _ask(self, body: Body) -> Generator[None, None, Reply | None]:
        """What the owner answers; a reply may be lost. None: the run is over."""
        self._claim, self._reply = new_id("clm"), None
        asked = body((self._claim, self._run.lease.run_id))
        yield from ask(self._run, asked, lambda: self._reply, lambda: True)
        assert self._reply is not None
        reply, self._claim = self._reply, ""
        return (yield from self._heard(reply))

    def _heard(self, reply: Reply) -> Generator[None, None, Reply | None]:
        match reply.kind:
            case "made":
                return reply
            case "cancel":
                yield from self._run.end("cancelled", reply.message)
            case "conflict" | "refused":
                raise Violation("child_refused", f"{reply.job_id}: {reply.message}")
            case _:
                self._run.stop("lost", reply.message)
                yield
        return None

    def _has_chance(self, share: float, *what: object) -> bool:
        lease = self._run.lease
        return self._run.worker.dice.chance(share, *what, root_of(lease), lease.epoch)
