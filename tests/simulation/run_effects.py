"""The effects of a run: it asks before each, calls out, records the outcome, in this order."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from simulation.handlers import arguments_of, root_of, split_effect
from simulation.outside import TOOLS, Call
from simulation.run_asking import ask
from simulation.run_calls import Answered, Ticks
from streams.serde.effect_scopes import JOB, effect_scope
from streams.serde.ids import new_id
from streams.serde.records import Claim, Outcome, Reply
from streams.worker.handler.run_session import LATE_SECONDS
from streams.worker.handler.values import digest

if TYPE_CHECKING:
    from simulation.run_model import RunModel

_KEEP_MS = 10 * 366 * 86_400_000
"""Shared effects are kept for longer than any story lasts."""


class Effects:
    """The claim that a run has made, the answer to it, and whether its tool is being called."""

    def __init__(self, run: RunModel) -> None:
        self._run = run
        self._claim: Claim | None = None
        self._reply: Reply | None = None
        self._calling = False

    @property
    def calls(self) -> str | None:
        """The tool that is being called."""
        return self._claim.action.partition("/")[0] if self._claim and self._calling else None

    def answered(self, reply: Reply) -> None:
        if self._claim is not None and self._claim.claim_id == reply.claim_id:
            self._reply = self._reply or reply

    def interrupted(self) -> None:
        """The handler is cancelled; what a call under way did is unknown."""
        claim, self._claim = self._claim, None
        if claim is not None and self._calling:
            self._tell(claim, "unknown")
        elif claim is not None and (self._reply is None or self._reply.kind == "granted"):
            self._withdraw(claim, self._reply)

    def effect(self, action: str) -> Answered:
        """`Context.effect`."""
        tool, key, once_per = split_effect(action)
        name, asking = f"{tool}/{key}", self._run.asking
        own = asking.edited.get(name) or arguments_of(self._run.lease, once_per)
        arguments = yield from asking.known(name, own)
        if arguments is None:
            return False
        claim = self._made(name, once_per, digest(arguments, name))
        reply = yield from self._ask(claim)
        if reply.kind == "granted":
            return (yield from self._perform(claim, reply))
        self._claim = None
        if reply.kind == "approval":
            return (yield from asking.propose(name, own, reply.message))
        if reply.kind != "done":
            yield from self._turned_down(claim, reply)
        return reply.kind == "done"

    def _made(self, name: str, once_per: str, evidence: bytes) -> Claim:
        return Claim(
            new_id("clm"),
            self._run.lease.run_id,
            name,
            evidence,
            TOOLS[name.partition("/")[0]].key_ms,
            once_per,
            0 if once_per == JOB else _KEEP_MS,
        )

    def _ask(self, claim: Claim) -> Generator[None, None, Reply]:
        """Claim again and again: a reply may be lost with the process that sends it."""
        self._claim, self._reply = claim, None
        # No repetition of a claim may follow the word that it is not begun.
        copies = yield from ask(self._run, claim, lambda: self._reply, lambda: self._claim is claim)
        assert self._reply is not None
        over, again = self._reply.kind in ("cancel", "lost"), self._reply.kind in ("busy", "full")
        if over or (again and copies > 1):  # another copy may be granted, too
            self._withdraw(claim, None)
        return self._reply

    def _withdraw(self, claim: Claim, reply: Reply | None) -> None:
        repeat = reply.repeat if reply else claim.key_lifetime_ms > 0
        self._tell(claim, "unknown" if repeat else "failed")

    def _perform(self, claim: Claim, reply: Reply) -> Answered:
        worker, lease = self._run.worker, self._run.lease
        tool, root = claim.action.partition("/")[0], root_of(lease)
        self._calling = True
        call = Call(
            worker.true_ms,
            tool,
            reply.idempotency_key,
            lease.tenant_id,
            effect_scope(lease.scope, claim.once_per),
            claim.action,
            root,
            worker.id,
            claim.digest,
        )
        worker.world.calls(lease, call)
        answer = worker.outside.call(call)
        worker.tell("calls", claim.action, "of", lease.job_id, lease.epoch, answer)
        for _ in range(worker.dice.of("lasts", root, claim.action).choice((0, 0, 1, 3))):
            yield
        self._claim, self._calling = None, False
        if answer == "ok":
            self._record(claim, "done", '"done"')
            return True
        settled = answer == "refused" and not reply.repeat
        status = "failed" if settled else "unknown"
        self._record(claim, status, blames_tool=True)
        yield from self._run.end("retry", f"{answer}: {claim.action}")
        return False

    def _turned_down(self, claim: Claim, reply: Reply) -> Ticks:
        run = self._run
        match reply.kind:
            case "review":
                yield from run.end("review", reply.message)
            case "cancel":
                yield from run.end("cancelled", reply.message)
            case "held" | "refused":
                yield from run.end("failed", f"{reply.kind}: {reply.message}")
            case "busy":
                awaited = orjson.dumps([claim.once_per, claim.action]).decode()
                yield from run.end("blocked", reply.message, result=awaited)
            case "full":
                asked = orjson.dumps([claim.action.partition("/")[0], claim.model]).decode()
                yield from run.end("full", reply.message, result=asked)
            case _:
                run.stop("lost", reply.message)
                yield

    def _record(
        self, claim: Claim, status: Any, result: str | None = None, *, blames_tool: bool = False
    ) -> None:
        body = replace(_outcome(claim, status, result, None), blames_tool=blames_tool)
        self._run.worker.post(self._run.lease, body, self._worth_telling(body))

    def _tell(self, claim: Claim, status: Any) -> None:
        body = _outcome(claim, status, None, "interrupted")
        self._run.worker.post(self._run.lease, body, self._worth_telling(body))

    def _worth_telling(self, body: Outcome) -> Callable[[], float]:
        late = 0.0 if body.status == "unknown" else LATE_SECONDS
        return lambda: self._run.held.expires_at + late


def _outcome(claim: Claim, status: Any, result: str | None, error: str | None) -> Outcome:
    return Outcome(
        claim.claim_id, claim.run_id, claim.action, status, result, error, claim.once_per
    )
