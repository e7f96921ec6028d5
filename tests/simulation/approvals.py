"""What people approved, and what comes of it: the first decision counts, and nothing else begins.

The decisions are read from the commands in their order, and counted here by the rules of
docs/approvals.md; the rows on the topic `approvals` must say the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulation.handlers import APPROVED, SECRET
from simulation.outside import Call, Violation
from streams.runtime.processor import Record
from streams.serde.approval_states import DECIDED, PENDING
from streams.serde.codec import APPROVAL, COMMAND
from streams.serde.ids import partition_for
from streams.serde.job_states import TERMINAL
from streams.serde.records import Approval, Decide, Job, Lease

if TYPE_CHECKING:
    from simulation.world import World

_SECRET = SECRET.encode()


@dataclass(frozen=True, slots=True)
class Decision:
    """A command that decides, where and when it stands in its partition."""

    offset: int
    at: int
    tenant: str
    body: Decide


@dataclass(frozen=True, slots=True)
class Verdict:
    """What decisions come to; `by_id` is the one that was decisive."""

    approved: bool
    by_id: str
    digests: tuple[bytes, ...]


class Approvals:
    """The approvals as they stand, and the decisions that were sent since they were asked for."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rows: dict[bytes, Approval] = {}
        self._sent: dict[str, list[Decision]] = defaultdict(list)
        """By approval, in their order."""
        self._read: Counter[int] = Counter()
        """By partition: the commands that had been read at the last look."""
        self._seen: Counter[tuple[str, int]] = Counter()

    def sent(self, record: Record) -> None:
        """A record of `jobs.commands`."""
        if b"dec_" not in (record.value or b""):
            return
        command = COMMAND.decode(record.value)
        if isinstance(command.body, Decide):
            decision = Decision(record.offset, record.timestamp, command.tenant_id, command.body)
            self._sent[command.body.approval_id].append(decision)

    def changed(self, record: Record) -> None:
        """A record of `approvals`.

        Raises:
            Violation: it is not what was decided.
        """
        key, old = record.key or b"", self.rows.get(record.key or b"")
        if record.value is None:
            self.rows.pop(key, None)
            return
        row = APPROVAL.decode(record.value)
        self._world.tell("approval", row.key, "of", row.job_id, row.status, row.by)
        self.rows[key] = row
        if old is None or old.asked_at != row.asked_at:
            self._asked(row, old)
        elif old.status != PENDING and old != row:
            raise Violation("decision_changed", f"{_told(old)}, now {_told(row)}")
        if row.status in DECIDED:
            self._decided(row)
        elif (verdict := self._verdict(row, self._read[record.partition])) is not None:
            raise Violation("decision_ignored", f"{_told(row)}, but {verdict}")

    def look(self) -> None:
        """All that was committed has been read.

        Raises:
            Violation: a decision does not count, an approval outlives its job, or a text that is
                to be sealed stands on a topic.
        """
        for partition in range(self._world.partitions):
            at = self._position(partition)
            self._read[partition] = max(self._read[partition], at)
        for row in self.rows.values():
            if row.status != PENDING:
                continue
            job = self._world.judge.jobs.get(row.job_id)
            if job is None or job.status in TERMINAL or job.scope != row.scope:
                raise Violation("approval_left", f"{_told(row)}: its job has ended")
            partition = partition_for(row.tenant_id, self._world.partitions)
            if (verdict := self._verdict(row, self._read[partition])) is not None:
                raise Violation("decision_ignored", f"{_told(row)}, but {verdict}")
        if self.rows or self._seen:
            self._all_sealed()

    def may_call(self, lease: Lease, call: Call) -> None:
        """A handler calls a tool.

        Raises:
            Violation: the call needs an approval that there is not, or has other arguments.
        """
        if lease.type not in APPROVED:
            return
        row = self._newest(call)
        told = "it was not asked for" if row is None else _told(row)
        if row is None or row.status != "approved":
            raise Violation("unapproved_call", f"{call.action} of {lease.job_id}: {told}")
        approved = [e.edited_digest or e.digest for e in row.effects if e.action == call.action]
        if approved != [call.digest]:
            raise Violation("unapproved_call", f"{call.action} with other arguments: {told}")

    def lets(self, job: Job, action: str) -> bool:
        """Whether people approved an effect of a job, or none need to."""
        rows = [row for row in self.rows.values() if row.scope == job.scope]
        about = [row for row in rows if any(each.action == action for each in row.effects)]
        return job.type not in APPROVED or any(row.status == "approved" for row in about)

    def _newest(self, call: Call) -> Approval | None:
        """The row of a call's effect, with what was committed since the last look."""
        partition = partition_for(call.tenant, self._world.partitions)
        rows: dict[bytes, Approval] = {}
        for record in self._world.cluster.records["approvals", partition]:
            if record.value is None:
                rows.pop(record.key or b"", None)
            elif call.scope.encode() in (record.key or b""):
                rows[record.key or b""] = APPROVAL.decode(record.value)
        about = [row for row in rows.values() if call.action in {e.action for e in row.effects}]
        return max(about, key=lambda row: (row.asked_at, row.approval_id), default=None)

    def _asked(self, row: Approval, old: Approval | None) -> None:
        if old is not None and not self._may_be_asked_anew(row, old):
            raise Violation("decision_changed", f"{_told(old)}, now {_told(row)}")
        partition = partition_for(row.tenant_id, self._world.partitions)
        sent = self._sent[row.approval_id]
        self._sent[row.approval_id] = [d for d in sent if d.offset >= self._position(partition)]
        if row.status in DECIDED:
            raise Violation("decided_unasked", f"{_told(row)} before anybody saw it")

    def _may_be_asked_anew(self, row: Approval, old: Approval) -> bool:
        job = self._world.judge.jobs.get(row.job_id)
        is_again = job is not None and job.parent is not None and job.incarnation > 1
        is_replay = row.job_id != old.job_id and row.key == row.effects[0].action
        return old.status == "cancelled" or (old.status == "expired" and (is_replay or is_again))

    def _decided(self, row: Approval) -> None:
        partition = partition_for(row.tenant_id, self._world.partitions)
        verdict = self._verdict(row, self._position(partition))
        digests = tuple(each.edited_digest or each.digest for each in row.effects)
        found = Verdict(row.status == "approved", row.votes[-1].decision_id, digests)
        if verdict is None or found != verdict:
            raise Violation("wrong_decision", f"{_told(row)}: {found} instead of {verdict}")

    def _verdict(self, row: Approval, before: int) -> Verdict | None:
        """What the decisions that stand before an offset come to; None while it is open."""
        votes: set[str] = set()
        asked = tuple(each.digest for each in row.effects)
        digests: tuple[bytes, ...] = ()
        for decision in self._sent[row.approval_id]:
            body = decision.body
            if decision.offset >= before or not _counts(decision, row):
                continue
            if not body.approved:
                return Verdict(False, body.decision_id, digests or asked)
            if body.edited != digests:
                if not body.edited:
                    continue  # somebody who has not seen the edit
                votes, digests = set(), body.edited
            votes.add(body.by)
            if len(votes) == row.quorum:
                return Verdict(True, body.decision_id, digests or asked)
        return None

    def _position(self, partition: int) -> int:
        """How far the commands of a partition have been read, with all that came of it."""
        log = self._world.cluster.records["jobs.commands", partition]
        return self._world.cluster.position("dispatcher", log[0]) if log else 0

    def _all_sealed(self) -> None:
        for place, log in list(self._world.cluster.records.items()):
            for record in log[self._seen[place] :]:
                if _SECRET in (record.value or b"") or _SECRET in (record.key or b""):
                    raise Violation("unsealed", f"{place} at {record.offset}: {record.value!r}")
            self._seen[place] = len(log)


def _counts(decision: Decision, row: Approval) -> bool:
    """Whether somebody may decide so, and in time."""
    in_time = row.expires_at is None or decision.at < row.expires_at
    may = row.approvers == "any" or decision.body.by != row.submitter
    return in_time and may and decision.tenant == row.tenant_id


def _told(row: Approval) -> str:
    return f"approval {row.key} of {row.job_id} is {row.status} by {row.by}"
