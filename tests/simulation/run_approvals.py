"""What a run asks people to approve, made and sealed by the product's own `Approvals`."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, cast

from simulation.handlers import (
    SECRET,
    TERMS,
    arguments_of,
    forgets_the_edit,
    is_hasty,
    root_of,
    split_effect,
)
from simulation.run_calls import Answered, at_once, may_begin
from streams import user_json
from streams.errors import PermanentError
from streams.serde.ids import approval_id
from streams.serde.link.places import ApprovalPlace, read
from streams.serde.records import CommandBody, Lease
from streams.serde.records.approvals import Sealed
from streams.vault.key_encryption import Vault, local_vault
from streams.vault.sealed_json import open_json, seal_json
from streams.worker.handler.approvals import Approvals
from streams.worker.handler.artifacts import Artifacts
from streams.worker.handler.decision import Decision
from streams.worker.handler.run_result import describe
from streams.worker.handler.waits import Pending, Waits

if TYPE_CHECKING:
    from simulation.run_model import RunModel

VAULT = local_vault(b"k" * 32)
Arguments = Mapping[str, Any]


class _Sealing:
    """The requests of a run, answered as its owner does (`streams.link.sealing`)."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    async def seal(self, place: str, text: str) -> Sealed:
        return seal_json(*self._whose(place), user_json.read(text))

    async def open(self, place: str, sealed: Sealed) -> str:
        return user_json.write(open_json(*self._whose(place), sealed)).decode()

    def _whose(self, place: str) -> tuple[None, Vault, str, str]:
        named, lease = read(place), self._lease
        assert isinstance(named, ApprovalPlace)
        return None, VAULT, lease.tenant_id, approval_id(lease.tenant_id, lease.scope, named.key)


class _Noting:
    """The product's session, which only notes what is to be said."""

    def __init__(self, run: RunModel) -> None:
        self.lease = run.lease
        self.requests = _Sealing(run.lease)
        self.redaction = run.redaction
        self.noted: list[CommandBody] = []

    async def say(self, body: CommandBody) -> None:
        self.noted.append(body)


class Asking:
    """The approvals of one run; `edited` has arguments that people gave, by their effect."""

    def __init__(self, run: RunModel) -> None:
        session, nothing = cast("Any", run), cast("Any", None)
        waits = Waits(session, run.history, nothing, Artifacts(session, None), nothing)
        self._run = run
        self._session = _Noting(run)
        noting = cast("Any", self._session)
        self._product = Approvals(noting, run.history, waits)
        self.edited: dict[str, Arguments] = {}

    def ask(self, action: str) -> Answered:
        """`Context.approval` for one effect; the run goes on if it is approved."""
        run, (tool, key, once_per) = self._run, split_effect(action)
        arguments = arguments_of(run.lease, once_per)
        effect = {"tool": tool, "key": key, "arguments": arguments}
        prompt, terms = f"{SECRET}: {root_of(run.lease)}?", TERMS[run.lease.type]
        pending = self._product.asked(key, prompt, [effect], terms)
        if run.history.found(pending.call) is None:
            if is_hasty(run.worker.dice, run.lease):
                return (yield from self._prepared(pending))
            yield from self._await(pending)
            return False
        decision = yield from self._given(pending)
        if decision is None:
            return False
        if not decision.approved:
            yield from run.end("succeeded", "")
            return False
        if decision.edit is not None and not forgets_the_edit(run.worker.dice, run.lease):
            self.edited[action] = arguments | decision.edit
        return True

    def known(self, action: str, arguments: Arguments) -> Generator[None, None, Arguments | None]:
        """The arguments of an effect, as people approved it; None: they did not, and it is over."""
        pending = self._proposed(action, arguments)
        if self._run.history.found(pending.call) is None:
            return arguments
        decision = yield from self._given(pending)
        if decision is None:
            return None
        if not decision.approved:
            yield from self._run.end("failed", f"PermanentError: {action} was not approved")
            return None
        return arguments if decision.edit is None else decision.edit

    def propose(self, action: str, arguments: Arguments, why: str) -> Answered:
        """Have people approve an effect that its handler just asks for."""
        pending = self._proposed(action, arguments)
        if self._run.history.found(pending.call) is None:
            yield from self._await(pending)
        else:
            yield from self._run.end("failed", f"PermanentError: {action} does not begin: {why}")
        return False

    def _proposed(self, action: str, arguments: Arguments) -> Pending:
        tool, _, key = action.partition("/")
        return self._product._proposed(tool, key, arguments)

    def _prepared(self, pending: Pending) -> Answered:
        if not (yield from may_begin(self._run, pending.call)):
            return False
        assert pending.before is not None
        at_once(cast("Any", pending.before()))
        body = self._session.noted.pop()
        return (yield from self._run.said(body, lambda: self._run.held.valid_until))

    def _await(self, pending: Pending) -> Generator[None, None, None]:
        if (yield from self._prepared(pending)):
            yield from self._run.park(pending.asked)

    def _given(self, pending: Pending) -> Generator[None, None, Decision | None]:
        try:
            decision: Decision = at_once(pending.given_now())
        except PermanentError as error:
            yield from self._run.end("failed", describe(error, str))
            return None
        return decision
