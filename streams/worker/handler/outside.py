"""The part of a handler's context that leads outside: credentials, and requests with them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streams.worker.credentials.credentials import Credentials
    from streams.worker.credentials.secret import Secret
    from streams.worker.handler.run_session import RunSession
    from streams.worker.http_session import Http


class Outside:
    """What a handler needs to call services that are not its own."""

    def __init__(self, session: RunSession, credentials: Credentials) -> None:
        self._run = session
        self._credentials = credentials

    async def credentials(self, name: str) -> Secret:
        """The present value of a credential of the topology: a `str` whose `repr` is masked.

        Ask in each run, and before the effect that needs it: it may have been rotated, and an error
        inside an effect's function leaves open what the function had done before. Do not pass it
        as an argument of an effect or step: let the function take it from around it.

        Raises:
            PermanentError: the job's tenant or type may not have it, or it was revoked.
            TransientError: its provider does not answer within ten seconds.
        """
        from streams.worker.credentials.provider import Scope  # `import streams` is light

        self._run.check()
        lease = self._run.lease
        with self._run.busy():
            return await self._credentials.get(Scope(name, lease.tenant_id, lease.type))

    @cached_property
    def http(self) -> Http:
        """HTTP requests that carry the idempotency key and the trace: `await ctx.http.post(url)`.

        They take no longer than the run may, and raise `TransientError` if nothing was sent. See
        `streams.worker.http_session.Http`.
        """
        from streams.worker.http_session import Http  # `import streams` is light

        return Http(self._run)
