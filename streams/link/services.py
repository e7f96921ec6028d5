"""What the process of an owner has beside its stage: who may be a worker, and what answers one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress

from streams.access.book import AccessBook
from streams.access.link_token import read_link_token
from streams.access.permissions import all_roles
from streams.kafka.clients import AwaitedProducer
from streams.kafka.payload_reader import PayloadReader
from streams.kafka.payload_thread import payload_thread
from streams.link.access import LinkAccess
from streams.link.answering import Answering
from streams.link.bodies import Bodies
from streams.link.committed_jobs import OwnedJobs, Stores
from streams.link.live import Publishing
from streams.link.sealing import Sealing
from streams.link.token_uses import keep_uses, write_uses
from streams.settings import Settings
from streams.state.overlay import Overlay
from streams.tenants.follower import TenantsFollower, log_unusable
from streams.topology.model import Topology
from streams.vault.key_encryption import open_vault
from streams.vault.keyring import DataKeyring

_LAST_USES_SECONDS = 1.0
_LINGER_MS = 1
_SENT_WITHIN_MS = 10_000
"""A record that is not acknowledged within this time has failed; its worker sends it again."""


class Services:
    """Two threads: one follows `tenants`, and one reads `payloads`.

    The stage's thread tells `jobs` which partitions it has. `access` may be asked in any thread,
    and `answering` in the loop of the server alone, as `close` may. `failed` is called, from any
    thread, with an error after which the process must end.

    Raises:
        ConfigError: there is no vault key, or the token of the link cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        stage: str,
        failed: Callable[[Exception], None],
    ) -> None:
        keyring, self._book = (
            DataKeyring(open_vault(settings)),
            AccessBook(all_roles(topology.roles)),
        )
        self._keyring = keyring
        self._tenants = TenantsFollower(settings, topology, stage, self._fold, log_unusable, failed)
        self.access = LinkAccess(self._book, read_link_token(settings), lambda: self.ready)
        self.jobs = OwnedJobs()
        payloads = PayloadReader(settings, stage)
        self._reader = payload_thread(payloads, failed)
        timing = {"linger.ms": _LINGER_MS, "message.timeout.ms": _SENT_WITHIN_MS}
        self._producer = AwaitedProducer(settings, **timing)
        self.answering = Answering(
            Bodies(self.jobs, keyring, payloads.fetch),
            Sealing(self.jobs, keyring),
            Publishing(
                self.jobs,
                self._producer,
                topology.partitions,
                is_erased=keyring.is_erased,
                pool_of=lambda type_: topology.job_type(type_).pool,
            ),
        )

    @property
    def ready(self) -> bool:
        """Whether all tokens and keys that were on `tenants` at the start are known."""
        return self._tenants.ready

    def start(self) -> None:
        """Begin to follow; this returns at once, even without a broker."""
        self._tenants.start()
        self._reader.start()

    def opened(self, partition: int, stores: Mapping[str, Overlay]) -> None:
        """Let the jobs of a partition be read, until `closing`; called in the stage's thread."""
        jobs, checkpoints = stores["jobs"].backend, stores["checkpoints"].backend
        self.jobs.opened(partition, Stores(jobs.get, checkpoints.get))

    def closing(self, partition: int) -> None:
        """Let the jobs of a partition be read no more."""
        self.jobs.closed(partition)

    async def keep_up(self) -> None:
        """Note the last uses of tokens, until this is cancelled."""
        await keep_uses(self.access.unwritten_uses, self._producer)

    async def close(self) -> None:
        """Note the last uses, and wait 5 seconds at most until all is acknowledged."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_USES_SECONDS):
                await write_uses(self.access.unwritten_uses, self._producer, 1)
        await self._producer.close()

    def stop(self) -> None:
        """End the threads; call this outside of event loops."""
        self._reader.stopping.set()
        self._tenants.stop()

    def _fold(self, key: bytes | None, value: bytes | None) -> None:
        """Have both take a record, also if one of them cannot."""
        with ExitStack() as each:
            for fold in (self._book.apply, self._keyring.apply):
                each.callback(fold, key, value)
