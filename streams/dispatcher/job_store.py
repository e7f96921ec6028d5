"""Stores one partition's jobs, with ordered keys that find the live and the expired ones.

Keys in the store `jobs`:

- `j` job_id: the job; `l` job_id: the index entry of a live job (`live_index`)
- `p` job_id command_id: a command that came before its job
- `s` scope job_id: a replay that shares the scope
- `C` job_id: the epoch of a lease whose worker has spoken for it
- `x` time job_id incarnation: when to purge a finished job; the value is its tenant and scope
- `x` time job_id 0 command_id: when to purge a command whose job never came

Other modules have their own keys: `kept_events`, `B` unhandled, `H` held, `R` sweep,
`T` closed tenants.
"""

from __future__ import annotations

import struct
from itertools import islice

from streams.dispatcher import unhandled_store
from streams.dispatcher.jobs import is_live
from streams.dispatcher.live_index import encode as live_entry
from streams.dispatcher.live_index import live_key
from streams.runtime.processor import Context
from streams.serde.codec import COMMAND
from streams.serde.decoded_cache import DecodedCache
from streams.serde.ids import scope_owner
from streams.serde.keys import SEPARATOR, after, checkpoint_key, join, split
from streams.serde.records import Command, Job
from streams.state.store import KeyValueStore

_JOB, _PARKED, _SHARED, _EXPIRY, _CONFIRMED = b"j", b"p", b"s", b"x", b"C"
_TIME = struct.Struct(">Q")


class JobStore:
    """The dispatcher's stores during one step; makes every change public on `jobs`.

    A job that changes several times in a step is written once, by `flush`.
    """

    def __init__(self, ctx: Context, keep_ms: int, cache: DecodedCache[Job]) -> None:
        self._ctx = ctx
        self._cache = cache
        self._jobs: KeyValueStore = ctx.store("jobs")
        self._keep_ms = keep_ms
        self._changed: dict[str, Job] = {}

    def get(self, job_id: str) -> Job | None:
        if job_id in self._changed:
            return self._changed[job_id]
        value = self._jobs.get(_JOB + job_id.encode())
        return None if value is None else self._cache.decode(job_id, value)

    def put(self, job: Job) -> None:
        """Keep a job's new state, to be written by `flush`.

        An earlier job of its id that ended in this step is written now, so that it is purged.
        """
        known = self._changed.get(job.job_id)
        if known is not None and known.incarnation != job.incarnation:
            self._write(known)
        self._changed[job.job_id] = job

    def flush(self) -> None:
        """Write and publish the jobs that changed."""
        for job in self._changed.values():
            self._write(job)
        self._changed.clear()

    def steps(self, job: Job) -> dict[str, str]:
        """Finished steps of a job: name to JSON."""
        prefix = join(job.job_id, str(job.incarnation)) + SEPARATOR
        found = self._ctx.store("checkpoints").range(prefix, after(prefix))
        return {key[len(prefix) :].decode(): value.decode() for key, value in found}

    def inherit_steps(self, job: Job, old: Job) -> None:
        """Copy the finished steps of `old` to a job that continues in its scope."""
        checkpoints = self._ctx.store("checkpoints")
        for name, value in self.steps(old).items():
            key = checkpoint_key(job.job_id, job.incarnation, name)
            checkpoints.put(key, value.encode())

    def in_scope(self, scope: str) -> list[Job]:
        """Every job that works in a scope: its owner, and the replays that share it."""
        prefix = _SHARED + join(scope) + SEPARATOR
        sharers = [split(key[1:])[1] for key, _ in self._jobs.range(prefix, after(prefix))]
        found = map(self.get, dict.fromkeys([scope_owner(scope), *sharers]))
        return [job for job in found if job is not None and job.scope == scope]

    def share(self, job: Job) -> None:
        """Note that a replay shares another job's scope: effects stay while either job is kept."""
        self._jobs.put(_SHARED + join(job.scope, job.job_id), b"")

    def confirm(self, job_id: str, epoch: int) -> None:
        """Remember that the worker of a lease has spoken for it."""
        self._jobs.put(_CONFIRMED + job_id.encode(), str(epoch).encode())

    def confirmed(self, job_id: str, epoch: int) -> bool:
        """Whether the worker of a job's lease has spoken for it."""
        return self._jobs.get(_CONFIRMED + job_id.encode()) == str(epoch).encode()

    def forget_confirmation(self, job_id: str) -> None:
        """Forget the confirmation of a lease that is over."""
        self._jobs.delete(_CONFIRMED + job_id.encode())

    def park(self, command: Command) -> None:
        """Keep a command until its job appears, or until the job can no longer be expected."""
        key = join(command.job_id, command.command_id)
        self._jobs.put(_PARKED + key, COMMAND.encode(command))
        self._expire(join(command.job_id, "0", command.command_id), b"")

    def parked(self) -> set[str]:
        """Ids of jobs for which a command waits."""
        keys = (key for key, _ in self._jobs.range(_PARKED, after(_PARKED)))
        return {split(key[1:])[0] for key in keys}

    def unpark(self, job_id: str) -> list[Command]:
        """Remove and return the commands kept for a job, in the order of their ids."""
        prefix = _PARKED + join(job_id) + SEPARATOR
        found = list(self._jobs.range(prefix, after(prefix)))
        for key, _ in found:
            self._jobs.delete(key)
        return [COMMAND.decode(value) for _, value in found]

    def parked_for(self, job_id: str) -> bool:
        """Whether a command waits for a job."""
        prefix = _PARKED + join(job_id) + SEPARATOR
        return next(self._jobs.range(prefix, after(prefix)), None) is not None

    def purge(self, limit: int, behind: bytes) -> tuple[set[str], bytes]:
        """Forget finished jobs whose time has come: record, steps and ledger entries.

        Go on behind the last key that was purged before, empty at first: what lies before it are
        tombstones, which the store would walk over each time. Returns the ids of the jobs that
        never came, for which a command had waited, and the last key that was purged.
        """
        start = behind + b"\0" if behind else _EXPIRY
        due = self._jobs.range(start, _EXPIRY + _TIME.pack(self._ctx.now + 1))
        awaited = set()
        for key, value in list(islice(due, limit)):
            behind = key
            job_id, incarnation, *command_id = split(key[1 + _TIME.size :])
            self._jobs.delete(key)
            if incarnation != "0":
                self._forget(job_id, int(incarnation), *split(value))
                continue
            self._jobs.delete(_PARKED + join(job_id, *command_id))
            if not self.parked_for(job_id):
                awaited.add(job_id)
        return awaited, behind

    def _write(self, job: Job) -> None:
        key, value = job.job_id.encode(), self._cache.encode(job.job_id, job)
        entry = self._jobs.get(live_key(job.job_id))
        known_live = entry is not None
        self._jobs.put(_JOB + key, value)
        self._ctx.forward("jobs", key, value)
        if not is_live(job):
            self._cache.forget(job.job_id)
            if known_live:
                self._jobs.delete(live_key(job.job_id))
            ended = join(job.job_id, str(job.incarnation))
            self._expire(ended, join(job.tenant_id, job.scope))
        elif entry != (now := live_entry(job)):
            self._jobs.put(live_key(job.job_id), now)

    def _expire(self, key: bytes, value: bytes) -> None:
        due = _TIME.pack(self._ctx.now + self._keep_ms)
        self._jobs.put(_EXPIRY + due + key, value)

    def _forget(self, job_id: str, incarnation: int, tenant_id: str, scope: str) -> None:
        job = self.get(job_id)
        current = job if job is not None and job.incarnation == incarnation else None
        if current is not None and (is_live(current) or self._kept(current)):
            return  # its id lives again, or was written again since
        _delete_prefix(self._ctx.store("checkpoints"), join(job_id, str(incarnation)) + SEPARATOR)
        if current is not None:
            self._jobs.delete(_JOB + job_id.encode())
            self._ctx.forward("jobs", job_id.encode(), None)
            self._jobs.delete(unhandled_store.key(current))
        self._leave(job_id, tenant_id, scope)

    def _leave(self, job_id: str, tenant_id: str, scope: str) -> None:
        """Delete ledger entries only after every job that may read them is gone."""
        if scope_owner(scope) != job_id:
            self._jobs.delete(_SHARED + join(scope, job_id))
        if not self.in_scope(scope):
            _delete_prefix(self._ctx.store("ledger"), join(tenant_id, scope) + SEPARATOR)

    def _kept(self, job: Job) -> bool:
        return job.updated_at + self._keep_ms > self._ctx.now


def _delete_prefix(store: KeyValueStore, prefix: bytes) -> None:
    for key in [key for key, _ in store.range(prefix, after(prefix))]:
        store.delete(key)
