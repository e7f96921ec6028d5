"""Decisions: a command that a call of the API sent is answered by one entry of `audit`.

The entry commits with what the command does, or with the refusal, which leaves no dead letter: the
caller is told. A command that is read twice is decided once. One exception saves a record: a
submission that makes a job is answered by the job's row.
"""

from __future__ import annotations

from typing import ClassVar

from streams.audit import commands, entries
from streams.audit.commands import Asked
from streams.audit.stage_log import StageLog
from streams.dispatcher import metrics, targets
from streams.dispatcher.part import Part
from streams.dispatcher.shared import Shared
from streams.dispatcher.step import Step
from streams.errors import PoisonRecord
from streams.serde.records import DONE, REFUSED, AuditEntry, Command, Submit

_AUDIT = b"z"
TWIN = "twin"
"""The reason of a submission that is done without a new job: its job was made before."""


class Decisions(Part):
    """Answers commands with a `call`; those without one are applied as they are."""

    keys: ClassVar = {_AUDIT: "the chain of audit entries, and the commands that they answer"}

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._log = StageLog("dispatcher", shared.partition, _AUDIT)

    def apply(self, step: Step, command: Command, at: int) -> None:
        """Apply a command, and answer it; `at` is the time of its record, in milliseconds.

        Raises:
            PoisonRecord: it is refused; nothing of what it did may stay.
        """
        asked = commands.asked(command)
        if asked is None:
            step.apply(command, at)
        elif isinstance(command.body, Submit):
            self._submit(step, command, command.body, asked, at)
        elif self._log.has_answered(step.store, command.command_id):
            metrics.TWINS.inc()
        else:
            before = targets.state(step, command)
            step.apply(command, at)
            after = targets.state(step, command)
            self._answer(
                step, entries.of_asked(asked, DONE, step.now, before=before, after=after), asked
            )

    def refuse(self, step: Step, command: Command, poison: PoisonRecord) -> bool:
        """Answer a command that was refused, of which nothing was done; False if nobody waits."""
        asked = commands.asked(command)
        if asked is None:
            return False
        if self._log.has_answered(step.store, command.command_id):
            metrics.TWINS.inc()
        else:
            why = {"reason": poison.reason, "detail": poison.detail}
            self._answer(step, entries.of_asked(asked, REFUSED, step.now, **why), asked)
        return True

    def _submit(self, step: Step, command: Command, body: Submit, asked: Asked, at: int) -> None:
        twin = targets.job_of(step, command, command.job_id)
        step.apply(command, at)
        now = step.table.get(command.job_id)
        if twin is None or now is None or now.incarnation != twin.incarnation:
            return
        if twin.request_hash != body.request_hash:
            raise PoisonRecord(
                "key_reused",
                f"this key belongs to job {twin.job_id}, submitted with another body: send the "
                "same body, or a new key",
            )
        if not self._log.has_answered(step.store, command.command_id):
            state = targets.state(step, command)
            entry = entries.of_asked(asked, DONE, step.now, reason=TWIN, before=state, after=state)
            self._answer(step, entry, asked)

    def _answer(self, step: Step, entry: AuditEntry, asked: Asked) -> None:
        metrics.DECISIONS.labels(entry.verb, entry.outcome).inc()
        self._log.answer(step.store, step.ctx.forward, entry, asked.command_id, step.now)
