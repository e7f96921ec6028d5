"""An owner of partitions in memory, with workers that a test plays message by message."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw
from uuid_utils import uuid7

from streams.link.grant import Grant
from streams.link.memory import MemoryConnection
from streams.link.owner import Owner
from streams.link.terms import Terms
from streams.runtime.link import LINK
from streams.runtime.processor import Record
from streams.serde.link.frames import encoded
from streams.serde.link.messages import (
    VERSION,
    Acked,
    FromOwner,
    Hello,
    Message,
    Order,
    Owned,
    Welcome,
)
from streams.serde.records import Handler
from streams.topology.model import LeasePolicy
from support.linked_stage import Roster

ALL = Grant("", "everything")
TERMS = Terms("pipeline-0", 8, frozenset({"default", "gpu", "gpu-b"}), LeasePolicy())
NOW = 1_750_000_000_000


def boot() -> str:
    return str(uuid7())


def handler(type_: str) -> Handler:
    return Handler(type_, 3, (10,), 300)


def hello(name: str = "w1", boot_: str = "", pool: str = "default", *types: str) -> Hello:
    handlers = tuple(map(handler, types or ("mail",)))
    return Hello(VERSION, name, boot_ or boot(), pool, 4, handlers)


def order(partition: int, number: int, kind: str = "claim") -> Order:
    return Order(partition, number, kind, Raw(b"{}"), "acme", "job_1", 1)


class Partitions:
    """An owner whose stage the test plays: `now` is its clock, in seconds."""

    def __init__(self, *owned: int) -> None:
        self.now = 100.0
        self.roster = Roster()
        self.owner = Owner(self.roster, TERMS, lambda: self.now)
        self.owner.owned(owned)

    def dial(self, said: Hello, grant: Grant = ALL) -> MemoryConnection:
        """Connect a worker; its welcome is not received yet."""
        connection = MemoryConnection(self.owner, grant)
        connection.send(said)
        return connection

    def welcomed(self, name: str = "w1", boot_: str = "") -> tuple[MemoryConnection, str]:
        """Connect a worker that has received its welcome; its id, too."""
        connection = self.dial(hello(name, boot_))
        (welcome,) = connection.receive()
        assert isinstance(welcome, Welcome)
        self.owner.take(NOW)
        return connection, welcome.worker_id

    def taken(self) -> list[Record]:
        return self.owner.take(NOW)

    def numbers(self) -> list[tuple[str, int, int]]:
        """Take what waits: of each command the worker's name, the partition and the number."""
        return [spoken(record) for record in self.taken()]

    def commit(self, records: Sequence[Record], *outputs: Record) -> None:
        self.owner.committed(records, outputs)


def spoken(record: Record) -> tuple[str, int, int]:
    read = msgspec.json.decode(record.value or b"", type=Order)
    name = (record.key or b"").decode().partition("/")[0].removeprefix("default:")
    return name, read.partition, read.number


def to(worker_id: str, message: Message) -> Record:
    """An output of the stage for a worker."""
    return Record(LINK, 0, 0, 0, worker_id.encode(), encoded(message))


def acked(messages: Sequence[FromOwner]) -> list[dict[int, int]]:
    return [message.numbers for message in messages if isinstance(message, Acked)]


def owned(messages: Sequence[FromOwner]) -> list[tuple[int, ...]]:
    return [message.partitions for message in messages if isinstance(message, Owned)]
