"""The credentials of one worker: checks who may have one, asks its provider, keeps its value."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import structlog

from streams.errors import JobError, PermanentError, TransientError
from streams.redaction.secrets import LEAST_CHARS, KnownSecrets
from streams.topology.credentials import CredentialDeclaration
from streams.worker.credentials.provider import Credential, Provider, Scope
from streams.worker.credentials.secret import Secret

log = structlog.get_logger(__name__)

ANSWER_SECONDS = 10.0
"""How long a provider may take."""

_EARLY, _EARLIEST_SECONDS = 0.1, 30.0
"""A value is asked for again so long before its end: a tenth of its time, and 30 s at most."""

_AGAIN_SECONDS = 5.0
"""A provider that did not answer is left alone for so long, while a value is left to use."""

_MOST_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class _Kept:
    """A value, when it is asked for again, and when it may not be used any more."""

    value: Secret
    renewed_at: float
    ends_at: float


@dataclass(frozen=True, slots=True)
class Sources:
    """How a worker finds a credential by its name, and a provider by its own."""

    declared: Callable[[str], CredentialDeclaration | None]
    providers: Mapping[str, Provider]


class Credentials:
    """Belongs to one event loop. Jobs that ask at the same time share one question."""

    def __init__(self, sources: Sources, secrets: KnownSecrets, clock: Callable[[], float]) -> None:
        self._sources = sources
        self._secrets = secrets
        self._clock = clock
        self._kept: OrderedDict[Scope, _Kept] = OrderedDict()
        self._asked: dict[Scope, asyncio.Task[Credential]] = {}

    async def get(self, scope: Scope) -> Secret:
        """The present value of a credential.

        Raises:
            PermanentError: the job may not have it, or it was revoked; the message says why.
            TransientError: its provider does not answer, and no value is left to use.
        """
        declared = self._declared_for(scope)
        kept = self._kept.get(scope)
        if kept is None or self._clock() >= kept.renewed_at:
            kept = await self._renewed(declared, scope)
        self._secrets.add(kept.value)
        return kept.value

    def _declared_for(self, scope: Scope) -> CredentialDeclaration:
        declared = self._sources.declared(scope.credential)
        if declared is None:
            raise PermanentError(
                f"credential {scope.credential!r} is not in the topology: declare it under "
                "credentials"
            )
        if not declared.is_for(scope.tenant_id, scope.job_type):
            raise PermanentError(
                f"credential {scope.credential!r} is not for jobs of type {scope.job_type!r} of "
                f"tenant {scope.tenant_id!r}: see its tenants and job_types in the topology"
            )
        return declared

    async def _renewed(self, declared: CredentialDeclaration, scope: Scope) -> _Kept:
        asked_at = self._clock()
        try:
            given = await self._answer(declared, scope)
        except TransientError as error:
            kept = self._kept.get(scope)
            if kept is None or self._clock() >= kept.ends_at:
                raise
            log.warning("credential not renewed: used on", name=declared.name, error=str(error))
            again_at = min(self._clock() + _AGAIN_SECONDS, kept.ends_at)
            self._kept[scope] = replace(kept, renewed_at=again_at)
            return kept
        except PermanentError:
            self._kept.pop(scope, None)
            raise
        return self._keep(scope, given, asked_at)

    def _keep(self, scope: Scope, given: Credential, asked_at: float) -> _Kept:
        value = Secret(given.value.get_secret_value())
        if len(value.strip()) < LEAST_CHARS:
            raise PermanentError(
                f"credential {scope.credential!r} has fewer than {LEAST_CHARS} characters: it "
                "cannot be told from other text, which redaction must do"
            )
        early = min(given.seconds * _EARLY, _EARLIEST_SECONDS)
        kept = _Kept(value, asked_at + given.seconds - early, asked_at + given.seconds)
        self._kept[scope] = kept
        self._kept.move_to_end(scope)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return kept

    async def _answer(self, declared: CredentialDeclaration, scope: Scope) -> Credential:
        """What the provider answers, to this job or to another one that asks the same."""
        task = self._asked.get(scope) or self._ask(declared, scope)
        await asyncio.wait({task}, timeout=ANSWER_SECONDS)
        if not task.done() or task.cancelled():
            raise TransientError(
                f"credential {declared.name!r}: provider {declared.provider!r} did not answer "
                f"within {ANSWER_SECONDS:g} s"
            )
        error = task.exception()
        if error is not None:
            raise _told(declared, error)
        return task.result()

    def _ask(self, declared: CredentialDeclaration, scope: Scope) -> asyncio.Task[Credential]:
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._given(declared, scope))
        self._asked[scope] = task

        def forget() -> None:
            if self._asked.get(scope) is task:
                del self._asked[scope]

        def give_up() -> None:
            forget()  # it may ignore that it is cancelled
            task.cancel()

        limit = loop.call_later(ANSWER_SECONDS, give_up)

        def answered(ended: asyncio.Task[Credential]) -> None:
            limit.cancel()
            forget()
            if not ended.cancelled():
                ended.exception()  # whoever asked may be gone: nobody else looks at it

        task.add_done_callback(answered)
        return task

    async def _given(self, declared: CredentialDeclaration, scope: Scope) -> Credential:
        provider = self._sources.providers.get(declared.provider)
        if provider is None:
            raise PermanentError(f"this worker has no provider {declared.provider!r}")
        return await provider.get(declared.reference_of(scope.tenant_id), scope)


def _told(declared: CredentialDeclaration, error: BaseException) -> JobError:
    """What a provider raised; of an error that it did not foresee, the type alone.

    Such a message may hold what the provider was sent.
    """
    about = f"credential {declared.name!r} of provider {declared.provider!r}"
    if isinstance(error, PermanentError):
        return PermanentError(f"{about}: {error}")
    if isinstance(error, TransientError):
        return TransientError(f"{about}: {error}")
    return TransientError(f"{about}: the provider failed with {type(error).__name__}")
