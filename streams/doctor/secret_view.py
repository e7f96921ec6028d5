"""Looks at whether the vault keys of these settings open what is sealed on `tenants`."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streams.doctor.group_view import require_groups
from streams.doctor.looking import ANSWER_SECONDS
from streams.errors import PoisonRecord, TidegateError, VaultError
from streams.kafka.failures import denied
from streams.kafka.offsets import Place, earliest, latest, read_offsets
from streams.kafka.tail import Tail, Unreadable
from streams.serde.codec import TENANT
from streams.serde.records import TenantRecord
from streams.settings import Settings
from streams.tenants.resealing import resealed
from streams.vault.key_encryption import Vault, open_vault

_NEWEST = 500
"""How many records of each partition are looked at, at most."""
_READ_SECONDS = 7.0
_BATCH, _WAIT_SECONDS = 500, 0.2


@dataclass(frozen=True, slots=True)
class SecretsSeen:
    """How many records hold something sealed that opens, and why that of the others does not."""

    open: int
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tenants:
    """The partitions of `tenants` that have a leader, and all topics that the user may see."""

    led: Sequence[Place]
    topics: Collection[str]


def read_secrets(
    settings: Settings, admin: AdminClient, group: str, partitions: int, seen: Tenants
) -> SecretsSeen:
    """Open what is sealed in the newest records of `tenants`; no secret is kept.

    Raises:
        ConfigError: a vault key cannot be read.
        KafkaException: the user may not read the topic.
        TidegateError: the topic cannot be read whole.
    """
    vault = open_vault(settings)
    if len(seen.led) < partitions:
        raise TidegateError("the topic tenants, or the leader of a partition of it, is missing")
    require_groups(admin, seen.topics)
    starts = _starts(admin, settings.topic_prefix, seen.led)
    newest = _read(settings, group, starts)
    refused = [_refusal(vault, record) for record in _sealed(newest.values())]
    closed = tuple(why for why in refused if why is not None)
    return SecretsSeen(len(refused) - len(closed), closed)


def _starts(admin: AdminClient, prefix: str, places: Sequence[Place]) -> dict[Place, int]:
    first, last = (
        read_offsets(admin, prefix, places, spec, ANSWER_SECONDS) for spec in (earliest(), latest())
    )
    return {place: max(first[place], last[place] - _NEWEST) for place in places}


def _read(
    settings: Settings, group: str, starts: Mapping[Place, int]
) -> dict[str | bytes | None, bytes | None]:
    """The newest value of each key, read to the end of each partition."""
    until = time.monotonic() + _READ_SECONDS
    newest: dict[str | bytes | None, bytes | None] = {}
    with Tail(settings, group) as tail:
        tail.begin(starts)
        while not tail.caught_up:
            if time.monotonic() > until:
                raise TidegateError(f"they were not read to their end within {_READ_SECONDS:g} s")
            try:
                newest |= {m.key(): m.value() for m in tail.read(_BATCH, _WAIT_SECONDS)}
            except Unreadable as error:
                if denied(error.fault.cause):
                    raise KafkaException(error.fault.cause) from error
                raise
    return newest


def _sealed(values: Iterable[bytes | None]) -> Iterator[TenantRecord]:
    """The records that hold something sealed; those that follow `tenants` report damaged ones."""
    for value in values:
        with suppress(PoisonRecord):
            record = TENANT.decode(value) if value is not None else None
            if record and (record.secrets or any(key.sealed for key in record.keys)):
                yield record


def _refusal(vault: Vault, record: TenantRecord) -> str | None:
    try:
        resealed(vault, record)
    except VaultError as error:
        return str(error).partition(":")[0]
    return None
