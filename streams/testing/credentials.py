"""Credentials of a bench: values of the test in the place of a provider's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from pydantic import SecretStr

from streams.errors import PermanentError
from streams.testing.tools import Tools
from streams.testing.virtual_loop import waits_outside
from streams.topology.credentials import CredentialDeclaration
from streams.topology.model import Topology
from streams.worker.app import App
from streams.worker.credentials.credentials import Sources
from streams.worker.credentials.provider import Credential, Provider, Scope
from streams.worker.credentials.shipped import shipped

_PROVIDER = "of the test"


@dataclass(frozen=True, slots=True)
class FakeCredential:
    """What is answered in the place of a provider, after `takes` virtual seconds."""

    answer: str | BaseException
    seconds: float
    takes: float


@dataclass(frozen=True, slots=True)
class _Real:
    """A provider that is no fake: the loop waits for its threads and sockets in real time."""

    provider: Provider

    async def get(self, reference: str, scope: Scope) -> Credential:
        """See `Provider.get`."""
        with waits_outside():
            return await self.provider.get(reference, scope)


class FakeCredentials:
    """The faked credentials of one bench, by name and tenant; it is their provider, too.

    `strict`: a credential without a fake fails the test, so that no test has a real one.
    """

    def __init__(self, topology: Topology, tools: Tools, *, strict: bool) -> None:
        self._topology = topology
        self._tools = tools
        self._strict = strict
        self._fakes: dict[tuple[str, str | None], FakeCredential] = {}

    def fake(self, name: str, tenant_id: str | None, fake: FakeCredential) -> None:
        """From now on a provider would answer so; a worker keeps a value for its time."""
        self._fakes[name, tenant_id] = fake

    def sources(self, app: App) -> Sources:
        """What a worker of the bench finds credentials by."""
        real = {name: _Real(each) for name, each in {**shipped(), **app.providers}.items()}
        return Sources(self._declared, {**real, _PROVIDER: self})

    async def get(self, reference: str, scope: Scope) -> Credential:
        """See `Provider.get`."""
        fake = self._fakes.get((reference, scope.tenant_id)) or self._fakes.get((reference, None))
        if fake is None:
            raise PermanentError(f"the test has no value for tenant {scope.tenant_id!r}")
        await asyncio.sleep(fake.takes)
        if isinstance(fake.answer, BaseException):
            raise fake.answer
        return Credential(SecretStr(fake.answer), fake.seconds)

    def _declared(self, name: str) -> CredentialDeclaration | None:
        """A faked one needs no declaration; if it has one, its tenants and job types hold."""
        declared = self._topology.credentials.get(name)
        if any(faked == name for faked, _ in self._fakes):
            found = declared or CredentialDeclaration(name, _PROVIDER, name)
            return replace(found, provider=_PROVIDER, reference=name)
        if declared is not None and self._strict:
            self._tools.fault = (
                f"credential {name} has no fake, and the bench is strict: add "
                f"bench.credential({name!r}, VALUE)"
            )
            raise PermanentError(self._tools.fault)
        return declared
