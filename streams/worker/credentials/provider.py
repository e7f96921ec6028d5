"""The contract of a provider: what keeps the values of credentials, such as a vault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import SecretStr


@dataclass(frozen=True, slots=True)
class Scope:
    """The credential of the topology that is asked for, and the tenant and type of the job."""

    credential: str
    tenant_id: str
    job_type: str


@dataclass(frozen=True, slots=True)
class Credential:
    """A value, and for how many seconds it may be used without asking again.

    A provider that rents out values of its own, which it revokes later, gives the time of the rent.
    Any other gives the time after which a rotated or revoked value must be noticed.
    """

    value: SecretStr
    seconds: float


class Provider(Protocol):
    """Guarantee: no value is in the message of an error, in a log line, or anywhere but in the
    answer."""

    async def get(self, reference: str, scope: Scope) -> Credential:
        """The present value behind a reference; called in the event loop, so it does not block.

        The caller keeps the value for the time that it may be used, asks once for all jobs that
        ask at the same time, and cancels a call that takes longer than ten seconds.

        Raises:
            PermanentError: the value was revoked, or there is none; the message gives the reason.
            TransientError: the provider cannot answer now.
        """
