"""The rows of the ledger: effects by scope, and what a job noted of shared effects.

A job that asks for an effect of a shared scope notes it in its own scope, under the action
`@SCOPE/TOOL/KEY`. The note has the status `shared` until the job knows that the effect is done.
Then it is a copy of the entry, so that the job gets the same result for as long as it lives, even
after the entry's time is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from streams.serde.codec import LEDGER_ENTRY
from streams.serde.effect_scopes import every_shared, is_shared, note_action, noted
from streams.serde.effect_states import BEGUN, DONE, SHARED, EffectStatus
from streams.serde.keys import SEPARATOR, after, join, ledger_key
from streams.serde.records import Job, LedgerEntry
from streams.state.store import KeyValueStore


def get(store: KeyValueStore, tenant_id: str, scope: str, action: str) -> LedgerEntry | None:
    """The current entry of an effect; None if it was never begun."""
    value = store.get(ledger_key(tenant_id, scope, action))
    return None if value is None else LEDGER_ENTRY.decode(value)


def put(store: KeyValueStore, entry: LedgerEntry) -> None:
    """Write an effect, which makes it public."""
    key = ledger_key(entry.tenant_id, entry.scope, entry.action)
    store.put(key, LEDGER_ENTRY.encode(entry))


def own_entries(store: KeyValueStore, job: Job) -> list[LedgerEntry]:
    """Every effect of the job's own scope, in the order of their actions."""
    return [entry for entry in _in_scope(store, job) if not is_shared(entry.action)]


def entries(store: KeyValueStore, job: Job) -> list[LedgerEntry]:
    """Every effect of the job's own scope, and each shared one that it asked for, as it is now."""
    found = (_as_it_is(store, entry) for entry in _in_scope(store, job))
    return [entry for entry in found if entry is not None]


def current(store: KeyValueStore, key: bytes) -> LedgerEntry | None:
    """The effect under a key of the ledger, or that of the note under it, as it is now."""
    value = store.get(key)
    return None if value is None else _as_it_is(store, LEDGER_ENTRY.decode(value))


def _as_it_is(store: KeyValueStore, entry: LedgerEntry) -> LedgerEntry | None:
    """The entry, or the effect of a note; None if that is forgotten and the job has no result."""
    if not is_shared(entry.action):
        return entry
    scope, action = noted(entry.action)
    found = get(store, entry.tenant_id, scope, action)
    if found is None and entry.status == DONE:
        return replace(entry, scope=scope, action=action)
    return found


def known_done(store: KeyValueStore, job: Job, scope: str, action: str) -> LedgerEntry | None:
    """The shared effect that the job has noted as done."""
    note = get(store, job.tenant_id, job.scope, note_action(scope, action))
    if note is None or note.status != DONE:
        return None
    return replace(note, scope=scope, action=action)


def note(store: KeyValueStore, job: Job, entry: LedgerEntry) -> None:
    """Note in the job's scope that the job asked for a shared effect, or that it is done."""
    action = note_action(entry.scope, entry.action)
    known = get(store, job.tenant_id, job.scope, action)
    status: EffectStatus = DONE if entry.status == DONE else SHARED
    if known is None or (known.status == SHARED and status == DONE):
        put(store, replace(entry, scope=job.scope, action=action, status=status))


def has_claimed(store: KeyValueStore, job: Job) -> bool:
    """Whether the job's present run has claimed an effect that was granted."""
    return any(entry.run_id == job.run_id for entry in _in_scope(store, job))


def scopes_of(store: KeyValueStore, job: Job, action: str) -> list[str]:
    """The scopes in which the job asked for an action that happened, or may have."""
    own = get(store, job.tenant_id, job.scope, action)
    named = [entry for entry in _notes(store, job) if noted(entry.action)[1] == action]
    found = [_as_it_is(store, entry) for entry in named] + [own]
    return [entry.scope for entry in found if entry is not None and entry.status in BEGUN]


def shared_ones(store: KeyValueStore, job: Job) -> list[tuple[str, str]]:
    """Scope and action of each shared effect that the job asked for, known or not."""
    return [noted(entry.action) for entry in _notes(store, job)]


def renew_note(store: KeyValueStore, job: Job, scope: str, action: str) -> None:
    """Note that a shared effect is done, if it is and the job asked for it."""
    entry = get(store, job.tenant_id, scope, action)
    asked = store.get(ledger_key(job.tenant_id, job.scope, note_action(scope, action)))
    if entry is not None and asked is not None:
        note(store, job, entry)


def _notes(store: KeyValueStore, job: Job) -> list[LedgerEntry]:
    prefix = join(job.tenant_id, job.scope, every_shared())
    return [LEDGER_ENTRY.decode(value) for _, value in store.range(prefix, after(prefix))]


def _in_scope(store: KeyValueStore, job: Job) -> Iterator[LedgerEntry]:
    prefix = join(job.tenant_id, job.scope) + SEPARATOR
    return (LEDGER_ENTRY.decode(value) for _, value in store.range(prefix, after(prefix)))
