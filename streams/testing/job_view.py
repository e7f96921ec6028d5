"""What is to be seen of one job of a bench."""

from __future__ import annotations

from typing import Any

from streams import user_json
from streams.artifacts.reference import path_of
from streams.artifacts.stand_in import MARK, is_stand_in, meant
from streams.serde import records
from streams.serde.effect_scopes import once_per
from streams.serde.job_states import SCHEDULED
from streams.serde.step_ids import HEARTBEAT, shown_id
from streams.testing.artifacts import Saved, opened_now, saved
from streams.testing.installation import Installation
from streams.testing.values import Call, DeadLetter, Effect, FailedRun, LogLine


class JobView:
    """One job as its records show it; equal to another of the same id."""

    def __init__(self, job_id: str, behind: Installation) -> None:
        self.id = job_id
        self._behind = behind

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.status}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobView) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def record(self) -> records.Job:
        """The job's newest record on the topic `jobs`."""
        return self._behind.pipeline.job_records(self.id)[-1]

    @property
    def status(self) -> str:
        """As docs/jobs.md lists them: `succeeded`, `failed`, `dead`, `needs_review`, ..."""
        return self.record.status

    @property
    def result(self) -> Any:
        """What the handler returned, as it reads back from JSON."""
        return self._whole(_value(self.record.result))

    @property
    def error(self) -> str | None:
        """The newest error, as `Type: message`; what a cancelled job was cancelled for."""
        return self.record.last_error

    @property
    def attempts(self) -> int:
        """The attempts that were counted."""
        return self.record.attempts

    @property
    def superseded_by(self) -> str | None:
        """The id of the job that took its place by flow control, or its event."""
        return self.record.superseded_by

    @property
    def event_ids(self) -> list[str]:
        """The ids of the events that it stands for; those of others once it has begun or ended."""
        return list(self.record.all_event_ids)

    @property
    def steps(self) -> dict[str, Any]:
        """The value of each finished step, by its name."""
        left = self._behind.pipeline.steps(self.record)
        return {each.id: _value(each.value) for each in left if each.kind != HEARTBEAT}

    @property
    def waits(self) -> list[str]:
        """The names of what the job waits for, or listens to.

        An effect that waits for people has its action as the name, with which `approve` takes it.
        """
        return [shown_id(wait.id) for wait in self.record.waits]

    @property
    def changed_args(self) -> list[str]:
        """The steps that were asked again with other arguments, and kept their values."""
        left = self._behind.pipeline.steps(self.record)
        return [each.id for each in left if each.changed_args]

    @property
    def effects(self) -> list[Effect]:
        """The effects that the job asked for, in the order in which it first did.

        A replay in the old scope has those of the job that it repeats.
        """
        return [self._effect(entry) for entry in self._behind.pipeline.entries(self.record)]

    @property
    def calls(self) -> list[Call]:
        """The calls of tools that this job made."""
        return [call for call in self._behind.tools.calls if call.job_id == self.id]

    @property
    def happened(self) -> list[Call]:
        """What this job's calls did outside: those that returned, as their tools count them.

        A call that is repeated under a key that its tool still honours counts once.
        """
        return [call for call in self._behind.happened() if call.job_id == self.id]

    @property
    def progress(self) -> list[Any]:
        """What the handler published, in order."""
        return [_value(each.value) for each in self._behind.pipeline.progress(self.id)]

    @property
    def streamed(self) -> dict[str, str]:
        """What the job streamed, by step (`""` for the handler itself), as readers have it now.

        What an earlier run streamed in a step is gone once a later one streams there again.
        """
        texts: dict[str, str] = {}
        for said in self._behind.pipeline.live(self.id):
            if said.kind == "token":
                texts[said.step] = texts.get(said.step, "") + said.text
            elif said.kind == "reset":
                texts.pop(said.step, None)
        return texts

    @property
    def log(self) -> list[LogLine]:
        """The lines of `ctx.log` that its runs wrote, in order."""
        said = (each for each in self._behind.pipeline.live(self.id) if each.kind == "log")
        return [LogLine(**_value(each.text)) for each in said]

    @property
    def heartbeat(self) -> Any:
        """The newest details that a run kept by `ctx.heartbeat`; None if there are none."""
        left = self._behind.pipeline.steps(self.record)
        return next((_value(each.value) for each in left if each.kind == HEARTBEAT), None)

    @property
    def failed_runs(self) -> list[FailedRun]:
        """Every run that did not succeed, in order, with the wait that followed it."""
        found: dict[records.Attempt, FailedRun] = {}
        for record in self._behind.pipeline.job_records(self.id):
            for newest in record.history[-1:]:
                found.setdefault(newest, _failed_run(newest, record))
        return list(found.values())

    @property
    def dead_letter(self) -> DeadLetter | None:
        """Why the job stands in the dead letters; None if it does not."""
        letter = self._behind.pipeline.dead_letter(self.id)
        return None if letter is None else DeadLetter(letter.reason, letter.detail)

    @property
    def artifacts(self) -> list[Saved]:
        """What it saved, and what lies there in the place of its large values."""
        behind = self._behind
        return saved(behind.store, behind.keyring, self.record.tenant_id, self.id)

    def _whole(self, value: Any) -> Any:
        """A value, or the large one that it stands for."""
        if not is_stand_in(value):
            return meant(value)
        of, id_ = value[MARK]["of"], value[MARK]["artifact"]
        path, behind = path_of(self.record.tenant_id, of, id_), self._behind
        found = opened_now(behind.store, behind.keyring, self.record.tenant_id, path)
        return meant(_value(found.content))

    def _effect(self, entry: records.LedgerEntry) -> Effect:
        tool, _, key = entry.action.partition("/")
        return Effect(
            tool,
            key,
            self._behind.observer.arguments.get(entry.digest, {}),
            entry.status,
            _value(entry.result),
            entry.error,
            entry.idempotency_key,
            entry.settled_by,
            entry.note,
            once_per(entry.scope),
            entry.job_id,
        )


def _failed_run(run: records.Attempt, record: records.Job) -> FailedRun:
    waits = record.status == SCHEDULED and record.next_retry_at is not None
    retry_in = ((record.next_retry_at or 0) - run.at) / 1000 if waits else None
    return FailedRun(run.attempt, run.kind, run.error, retry_in)


def _value(text: str | bytes | None) -> Any:
    return None if text is None else user_json.read(text)
