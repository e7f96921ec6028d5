"""Which decision of a person counts, and what it makes of an approval.

The votes of an approval are those for what is to be approved now: the arguments that were asked
for, or the last edit. Another edit is another question, so the votes before it are void.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from unicodedata import category, normalize

from streams.dispatcher.approvals import is_late
from streams.errors import PoisonRecord
from streams.http.moments import rfc3339
from streams.serde.approval_states import (
    APPROVED,
    CANCELLED,
    DECIDED,
    EXPIRED,
    PENDING,
    REJECTED,
    ApprovalStatus,
)
from streams.serde.records import Approval, Decide, Vote


def check(approval: Approval, body: Decide, at: int) -> None:
    """Return if a decision may count that was written `at` (milliseconds).

    Raises:
        PoisonRecord: it comes too late, is about other arguments, or is by a person who may not
            decide.
    """
    name = f"approval {approval.approval_id}"
    if approval.status in DECIDED:
        when = rfc3339(approval.ended_at)
        raise PoisonRecord(
            "already_decided", f"{name} was {approval.status} by {approval.by} at {when}"
        )
    if approval.status == EXPIRED or (approval.status == PENDING and is_late(approval, at)):
        when = rfc3339(approval.expires_at)
        raise PoisonRecord("expired", f"{name} expired at {when}: its job went on without it")
    if approval.status == CANCELLED:
        raise PoisonRecord("approval_cancelled", f"{name} is cancelled: its job does not wait")
    if approval.approvers == "not_submitter" and _is_same(body.by, approval.submitter):
        raise PoisonRecord(
            "submitter_may_not_decide", f"{body.by} submitted the job of {name}: ask somebody else"
        )
    if body.approved:
        _check_approving(name, approval, body)


def voted(approval: Approval, body: Decide, at: int, now: int) -> Approval:
    """The approval with one more decision; one rejection is enough. Times are in milliseconds."""
    vote = Vote(body.decision_id, body.approved, body.by, at, body.note)
    if body.approved and _edit_digest(body) != approval.edit_digest:
        approval = _edited(approval, body)
    approval = replace(approval, votes=(*approval.votes, vote))
    if body.approved and len(approval.votes) < approval.quorum:
        return approval
    status: ApprovalStatus = APPROVED if body.approved else REJECTED
    return replace(approval, status=status, by=body.by, note=body.note, ended_at=now)


def _check_approving(name: str, approval: Approval, body: Decide) -> None:
    about = _edit_digest(body)
    if about is not None and len(body.edited) != max(1, len(approval.effects)):
        raise PoisonRecord("not_supported", f"the edit of {name} is not one of its effects")
    if about is None and approval.edit_digest is not None:
        raise PoisonRecord(
            "edited",
            f"{approval.votes[0].by} changed what {name} asks for: give the same edit to approve "
            "that, or another one",
        )
    votes = approval.votes if about == approval.edit_digest else ()
    if any(_is_same(vote.by, body.by) for vote in votes):
        raise PoisonRecord(
            "already_approved", f"{body.by} has approved {name}: {approval.quorum} people must"
        )


def _edited(approval: Approval, body: Decide) -> Approval:
    """The approval with another edit, for which nobody has voted."""
    digests = body.edited[: len(approval.effects)]
    effects = tuple(
        replace(effect, edited_digest=digest)
        for effect, digest in zip(approval.effects, digests, strict=True)
    )
    digest = _edit_digest(body)
    return replace(approval, edit=body.edit, edit_digest=digest, effects=effects, votes=())


def _edit_digest(body: Decide) -> bytes | None:
    """What identifies an edit; None for a decision about what was asked for."""
    if body.edit is None:
        return None
    return hashlib.sha256(b"".join(body.edited)).digest()


def _is_same(one: str, other: str | None) -> bool:
    """Whether two names are of one person."""
    return other is not None and _person(one) == _person(other)


def _person(name: str) -> str:
    """A name without what does not tell people apart: case, spaces, and how letters are encoded."""
    folded = normalize("NFKC", normalize("NFKC", name).casefold())
    return "".join(char for char in folded if not char.isspace() and category(char) != "Cf")
