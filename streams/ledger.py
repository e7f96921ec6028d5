"""The ledger: whether a side effect may begin, decided in the transaction that checks its lease.

An entry's key is (tenant, scope, action) on the public, compacted topic `ledger`, which is this
store's changelog. The scope is the job's own, or one that the jobs of a tenant share
(`effect_scopes`). The caller has checked that the claim's lease is the living one.

    (none), failed      -> granted; claimed
    claimed, same claim -> granted again: a repeated question gets the same answer
    claimed, same run, or by another job of the scope whose run lives
                        -> held: two calls in progress under one key
    claimed in a shared scope by a run of another job that lives
                        -> busy: the job asks again when that call has ended
    done                -> the stored result
    unknown, or claimed by a run that is over
                        -> granted under the same key while the tool honours it, else review
    begun, and now with other arguments -> refused
    to be granted, and people object    -> refused, or approval: the worker asks for one
    to be granted, and a policy denies  -> denied; the entry of an effect that nobody began says so
    to be granted, and a limit of its tool or model is reached
                        -> full: the job asks again when there is room

A person may settle an effect whose outcome is unknown (`streams/dispatcher/parts/reviews.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streams.errors import LONGEST_WAIT_SECONDS
from streams.http.moments import moment
from streams.ledger_entries import entries, get, known_done, note, put, scopes_of
from streams.serde.effect_scopes import effect_scope, is_shared, once_per
from streams.serde.effect_states import CLAIMED, DONE, FAILED, REVIEW, UNKNOWN, UNSETTLED
from streams.serde.ids import idempotency_key
from streams.serde.records import (
    Claim,
    Job,
    LedgerEntry,
    Outcome,
    Reply,
    ReplyKind,
)
from streams.serde.replacing import replace
from streams.state.store import KeyValueStore

Objects = Callable[[], tuple[ReplyKind, str] | None]
"""The objection of policies, people or limits to an effect that is about to be granted.

None: they have none, and the effect is granted. So it is asked last, and once.
"""

_KEY_MARGIN_MS = 60_000
"""A repeat that is granted now reaches its tool a little later: the key must still hold then."""


def claim(
    store: KeyValueStore,
    job: Job,
    asked: Claim,
    now: int,
    *,
    lives: Callable[[LedgerEntry], bool],
    objects: Objects = lambda: None,
) -> Reply:
    """Answer a claim of the living lease of `job`; `now` in milliseconds.

    `lives` says whether an entry is claimed by a run that still has its lease. `objects` gives
    the objection to an effect that is about to be granted.
    """
    scope = effect_scope(job.scope, asked.once_per)
    known = known_done(store, job, scope, asked.action) if is_shared(scope) else None
    known = known or get(store, job.tenant_id, scope, asked.action)
    entry = known or _not_begun(job, scope, asked, now)
    if (other := _begun_elsewhere(store, job, scope, asked.action)) is not None:
        return _reply(job, asked, entry, "refused", message=_other_scope(asked.action, other))
    reply = _answered(store, entry, job, asked, now, lives, objects)
    if is_shared(scope) and reply.kind not in ("refused", "approval", "full"):
        note(store, job, get(store, job.tenant_id, scope, asked.action) or entry)
    return reply


def _other_scope(action: str, begun_in: str) -> str:
    """What a job is told that asks in another scope for what it has begun."""
    return (
        f"effect {action} was begun in this job with once_per={once_per(begun_in)!r}: keep that, "
        "or give another call another key"
    )


def _begun_elsewhere(store: KeyValueStore, job: Job, scope: str, action: str) -> str | None:
    """Another scope in which the job has begun this action: its code was changed since.

    A first run has no earlier one, and its worker sees to it that it names one scope.
    """
    if job.epoch <= 1 and job.replay_of is None:
        return None
    named = [scope_of for scope_of in scopes_of(store, job, action) if scope_of != scope]
    return next(iter(named), None)


def _answered(
    store: KeyValueStore,
    entry: LedgerEntry,
    job: Job,
    asked: Claim,
    now: int,
    lives: Callable[[LedgerEntry], bool],
    objects: Objects,
) -> Reply:
    if entry.status != FAILED and entry.digest != asked.digest:
        by = f" by job {entry.job_id}" if is_shared(entry.scope) else ""
        message = (
            f"effect {asked.action} was claimed before with other arguments{by}: "
            "give another call another key"
        )
        return _reply(job, asked, entry, "refused", message=message)
    if entry.claim_id == asked.claim_id and entry.status != DONE:
        return _repeated(job, asked, entry)
    if entry.status == DONE:
        return _reply(job, asked, entry, "done", result=entry.result)
    if entry.status == FAILED:
        return _grant(store, entry, job, asked, now, objects)
    if lives(entry):
        message = f"effect {asked.action} is under way in job {entry.job_id}: wait for its end"
        other = is_shared(entry.scope) and entry.run_id != asked.run_id
        return _reply(job, asked, entry, "busy" if other else "held", message=message)
    return _uncertain(store, entry, job, asked, now, objects)


def outcome(
    store: KeyValueStore,
    tenant_id: str,
    scope: str,
    told: Outcome,
    now: int,
    *,
    may_tell: Callable[[LedgerEntry], bool] = lambda _: True,
) -> LedgerEntry | None:
    """Record how a claimed effect ended; returns its entry, or None if that changed nothing.

    Accept the outcome of a run's own claim even after its lease is over: it is the truth.
    `may_tell` says whether the teller can know the outcome of an entry.
    """
    entry = get(store, tenant_id, scope, told.action)
    if entry is None or not _is_news(entry, told) or not may_tell(entry):
        return None
    told_entry = replace(
        entry,
        # Keep asking the person until the outcome is known.
        status=REVIEW if (entry.status, told.status) == (REVIEW, UNKNOWN) else told.status,
        claims=entry.claims - (told.status == FAILED),
        result=told.result,
        error=told.error,
        updated_at=now,
        settled_by=None,
        note=None,
    )
    put(store, told_entry)
    return told_entry


def review_unknown(
    store: KeyValueStore, job: Job, now: int, *, lives: Callable[[LedgerEntry], bool]
) -> str | None:
    """Put the effects that a job's attempts leave unknown before a person.

    Leave out those that a replay may repeat under their key. Returns the message about one of them;
    None: there is none.
    """
    told = None
    for entry in _unknown_ones(store, job, lives):
        if not _repeatable(entry, entry.key_lifetime_ms, now):
            told = _review(store, entry, now)
    return told


def repeatable_unknown(
    store: KeyValueStore, job: Job, now: int, *, lives: Callable[[LedgerEntry], bool]
) -> str | None:
    """What a job that ends without its unknown effects known says about one of them.

    A replay may repeat such an effect under its key. None: there is none.
    """
    for entry in _unknown_ones(store, job, lives):
        if _repeatable(entry, entry.key_lifetime_ms, now):
            until = moment(repeatable_until(entry))
            return (
                f"{_unknown(entry)}: a replay before {until.isoformat(timespec='seconds')} calls "
                "the tool under the same key; or settle the effect, then replay"
            )
    return None


def _unknown_ones(
    store: KeyValueStore, job: Job, lives: Callable[[LedgerEntry], bool]
) -> Iterator[LedgerEntry]:
    """The effects of a job whose run is over that nobody knows the outcome of, and nobody makes."""
    for entry in entries(store, job):
        in_progress = entry.job_id != job.job_id and lives(entry)
        if entry.status in UNSETTLED and not in_progress:
            yield entry


def repeatable_until(entry: LedgerEntry) -> int:
    """When a repeat under the effect's key is granted no more, in milliseconds.

    For a tool without keys, that is before the effect was begun.
    """
    return entry.first_claimed_at + entry.key_lifetime_ms - _KEY_MARGIN_MS


def settleable_at(entry: LedgerEntry, job: Job | None, term_seconds: float) -> int:
    """When no call of the effect can be under way any more, in milliseconds.

    `term_seconds` is the term of a lease. The job that made the call may be forgotten (None).
    """
    timeout = min(max(job.timeout_seconds, 0), LONGEST_WAIT_SECONDS) if job else 0.0
    return entry.updated_at + round(max(term_seconds, timeout) * 1000)


def _is_news(entry: LedgerEntry, told: Outcome) -> bool:
    """Whether an outcome says more than its entry does.

    Two late reports of `done` are news: from a claim that a repeat under the same key replaced, and
    about an effect that a person settled as not done.
    """
    if entry.claim_id != told.claim_id:
        return told.status == DONE and entry.claims > 1 and entry.status in UNSETTLED
    if entry.settled_by is not None and entry.status == FAILED:
        return told.status == DONE
    return entry.status in UNSETTLED


def _uncertain(
    store: KeyValueStore,
    entry: LedgerEntry,
    job: Job,
    asked: Claim,
    now: int,
    objects: Objects,
) -> Reply:
    """Answer for an effect that may have happened: repeat it only if the tool honours its key."""
    if _repeatable(entry, min(entry.key_lifetime_ms, asked.key_lifetime_ms), now):
        return _grant(store, entry, job, asked, now, objects, repeat=True)
    return _reply(job, asked, entry, "review", message=_review(store, entry, now))


def _repeatable(entry: LedgerEntry, key_lifetime_ms: int, now: int) -> bool:
    """Whether the tool still knows the key."""
    return now < entry.first_claimed_at + key_lifetime_ms - _KEY_MARGIN_MS


def _review(store: KeyValueStore, entry: LedgerEntry, now: int) -> str:
    """Put the effect in review; returns what the job's error says until it is settled."""
    if entry.status != REVIEW:
        put(store, replace(entry, status=REVIEW, updated_at=now))
    return _unknown(entry)


def _unknown(entry: LedgerEntry) -> str:
    return f"the outcome of effect {entry.action} is unknown"


def _repeated(job: Job, asked: Claim, entry: LedgerEntry) -> Reply:
    if entry.status == CLAIMED:
        return _reply(job, asked, entry, "granted", repeat=entry.claims > 1)
    return _reply(job, asked, entry, "lost", message="this claim has its outcome already")


def _grant(
    store: KeyValueStore,
    entry: LedgerEntry,
    job: Job,
    asked: Claim,
    now: int,
    objects: Objects,
    *,
    repeat: bool = False,
) -> Reply:
    against = objects()
    if against is not None:
        kind, message = against
        if kind == "denied" and entry.status == FAILED:
            put(store, _denied(entry, job, asked, now, message))
        return _reply(job, asked, entry, kind, message=message)
    granted = replace(
        entry,
        status=CLAIMED,
        job_id=job.job_id,
        epoch=job.epoch,
        run_id=asked.run_id,
        worker_id=job.worker_id or "",
        claim_id=asked.claim_id,
        digest=asked.digest,
        key_lifetime_ms=asked.key_lifetime_ms,
        keep_ms=max(entry.keep_ms, asked.keep_ms),
        claims=entry.claims + 1,
        updated_at=now,
        error=None,
        settled_by=None,
        note=None,
    )
    put(store, granted)
    return _reply(job, asked, granted, "granted", repeat=repeat)


def _denied(entry: LedgerEntry, job: Job, asked: Claim, now: int, why: str) -> LedgerEntry:
    """The entry of an effect that did not begin now; who settled it before stays known."""
    return replace(
        entry,
        job_id=job.job_id,
        epoch=job.epoch,
        run_id=asked.run_id,
        digest=asked.digest,
        keep_ms=max(entry.keep_ms, asked.keep_ms),
        updated_at=now,
        error=why,
    )


def _not_begun(job: Job, scope: str, asked: Claim, now: int) -> LedgerEntry:
    """The first entry of an effect: one that is not in the ledger was not done."""
    return LedgerEntry(
        tenant_id=job.tenant_id,
        scope=scope,
        action=asked.action,
        status=FAILED,
        job_id=job.job_id,
        epoch=job.epoch,
        run_id=asked.run_id,
        claim_id="",
        digest=asked.digest,
        idempotency_key=idempotency_key(job.tenant_id, scope, asked.action),
        key_lifetime_ms=asked.key_lifetime_ms,
        claims=0,
        first_claimed_at=now,
        updated_at=now,
        result=None,
        error=None,
        settled_by=None,
        note=None,
    )


def _reply(
    job: Job,
    asked: Claim,
    entry: LedgerEntry,
    kind: ReplyKind,
    *,
    result: str | None = None,
    repeat: bool = False,
    message: str = "",
) -> Reply:
    return Reply(
        job.job_id,
        job.epoch,
        asked.claim_id,
        kind,
        entry.idempotency_key,
        repeat,
        result,
        message,
    )
