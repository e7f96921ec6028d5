"""Claims: a worker asks the ledger before a side effect, and tells what became of it."""

from __future__ import annotations

from collections.abc import Callable

from streams import ledger
from streams.dispatcher import metrics
from streams.dispatcher.living_lease import living
from streams.dispatcher.part import Part
from streams.dispatcher.replies import TOPIC, check_partition
from streams.dispatcher.review import go_on
from streams.dispatcher.step import Step
from streams.runtime.part import handles
from streams.serde.job_states import LEASED
from streams.serde.records import Claim, Command, LedgerEntry, Outcome, Reply, ReplyKind


class Claims(Part):
    """Answers claims against the living lease, and records outcomes."""

    @handles(Claim)
    def claim(self, step: Step, command: Command, body: Claim, at: int) -> None:
        check_partition(self.topology, TOPIC, body.reply_partition)
        job = living(step, command, body.run_id)
        if job is None:
            reply = _plain(body, command, "lost", "the lease of this run is over")
        elif job.cancel_requested:
            reply = _plain(body, command, "cancel", "the job is being cancelled")
        else:
            reply = ledger.claim(step.ledger, job, body, step.now, lives=_lives(step))
        step.answer(reply, body.reply_partition)

    @handles(Outcome)
    def outcome(self, step: Step, command: Command, body: Outcome, at: int) -> None:
        job = step.table.get(command.job_id)
        if job is None or not ledger.outcome(step.ledger, job, body, step.now):
            metrics.STALE.labels("Outcome").inc()
        elif job.status not in LEASED:  # a late outcome, for which a job may be in review
            go_on(step, job)


def _lives(step: Step) -> Callable[[LedgerEntry], bool]:
    """Whether the run that claimed an entry still has its lease."""

    def lives(entry: LedgerEntry) -> bool:
        job = step.table.get(entry.job_id)
        return job is not None and job.status in LEASED and job.run_id == entry.run_id

    return lives


def _plain(body: Claim, command: Command, kind: ReplyKind, message: str) -> Reply:
    return Reply(
        body.worker_id, command.job_id, command.epoch, body.claim_id, kind, message=message
    )
