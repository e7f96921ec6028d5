"""The messages of the link between a worker and the owners of partitions.

A frame is a JSON array of messages; each has its kind in `type`. Bytes are base64 text. Unknown
fields are ignored, so that a newer end may add some.

A worker numbers its commands for each partition, from 1 on, for as long as its process lives. It
keeps a command until the owner acknowledges it. What is not acknowledged when an owner announces
the partition anew is sent to that owner in order, behind a heartbeat, and under new numbers: so an
acknowledgement of a former copy never counts for one that its owner has dropped.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from streams.serde.link.bounds import MOST
from streams.serde.records import Handler, JobTypes, Lease, LiveKind, Reply
from streams.serde.records.approvals import Sealed

VERSION = 1
"""The version of the protocol. An owner refuses a worker that speaks another one."""


Number = Annotated[int, Meta(ge=-MOST, le=MOST)]
"""A number that each language and record can hold."""


class Message(Struct, frozen=True, tag_field="type"):
    """One message of a frame."""


# What a worker says.


class Hello(Message, frozen=True, tag="hello"):
    """The first message of a connection: who the worker is, and what it runs.

    `name` is the instance's, and `boot` a UUIDv7 of the process: a later boot takes the place of an
    earlier one of the same name. `slots` is how many leases it takes at most, from all owners.
    With `check`, the owner says only whether it would take the worker, and closes the connection.
    """

    version: Number
    name: str
    boot: str
    pool: str
    slots: Number
    handlers: tuple[Handler, ...]
    check: bool = False


class Beat(Message, frozen=True, tag="beat"):
    """A sign of life of the connection, at least each heartbeat interval.

    `number` grows; a lease names the newest that the owner had read. `limit` is how many leases the
    owner may send over this connection in all, counted from its beginning. `draining` says that the
    worker ends and takes no more.
    """

    number: Number
    limit: Number
    draining: bool = False


class Order(Message, frozen=True, tag="command"):
    """A command for the owner of a partition, as one of `streams.serde.link.commands`."""

    partition: Number
    number: Number
    kind: str
    body: Raw
    tenant_id: str = ""
    job_id: str = ""
    epoch: Number = 0


class Body(Message, frozen=True, tag="body"):
    """Asks for the raw body of the event of a lease that the worker holds.

    `index` is the place of the event in its batch, and `wait` the id of the wait that the event
    ended; without either, it is the event of a job of one event.
    """

    request: Number
    partition: Number
    job_id: str
    epoch: Number
    index: Number | None = None
    wait: str = ""


class Seal(Message, frozen=True, tag="seal"):
    """Asks to seal JSON text with the key of the job's tenant.

    `place` says what it belongs to, as `streams.serde.link.places` writes it.
    """

    request: Number
    partition: Number
    job_id: str
    epoch: Number
    place: str
    text: str


class Unseal(Message, frozen=True, tag="unseal"):
    """Asks to open what was sealed for a job of the same tenant, at the same place: JSON text."""

    request: Number
    partition: Number
    job_id: str
    epoch: Number
    place: str
    sealed: Sealed


class Live(Message, frozen=True, tag="live"):
    """What a run says while it runs. The meaning of `kind` and `n` is that of docs/live.md."""

    request: Number
    partition: Number
    job_id: str
    epoch: Number
    run_id: str
    at: Number
    kind: LiveKind
    step: str
    n: Number
    text: str


class Progress(Message, frozen=True, tag="progress"):
    """How far a run is; `value` is JSON text."""

    request: Number
    partition: Number
    job_id: str
    epoch: Number
    run_id: str
    at: Number
    value: str


class Announce(Message, frozen=True, tag="announce"):
    """The job types of the application, with the schemas of their inputs and results."""

    request: Number
    types: JobTypes


FromWorker = Hello | Beat | Order | Body | Seal | Unseal | Live | Progress | Announce


# What an owner says.


class Welcome(Message, frozen=True, tag="welcome"):
    """The answer to a hello. `partitions` is how many there are, `owned` those of this owner.

    `worker_id` is the worker's identity, as leases and the operator's API name it.
    """

    version: int
    worker_id: str
    owner: str
    partitions: int
    owned: tuple[int, ...]
    heartbeat_seconds: float
    term_seconds: float
    margin_seconds: float


class Refused(Message, frozen=True, tag="refused"):
    """The owner closes the connection. `reason` is one word, and `message` says what to do."""

    reason: Literal[
        "version", "token", "revoked", "pool", "not_allowed", "malformed", "replaced", "too_slow"
    ]
    message: str


class Owned(Message, frozen=True, tag="owned"):
    """The partitions that this owner has from now on; it has no others."""

    partitions: tuple[int, ...]


class Leased(Message, frozen=True, tag="lease"):
    """A lease. Its term counts from the sending of the beat that it names."""

    partition: int
    beat: int
    lease: Lease


class Answer(Message, frozen=True, tag="answer"):
    """An answer to a command, or the end of a run's lease.

    `number` is that of a command that is `refused` because nobody can apply it.
    """

    partition: int
    reply: Reply
    number: int = 0


class Acked(Message, frozen=True, tag="acked"):
    """By partition, the number of the newest command that is committed, with all before it."""

    numbers: dict[int, int]


class Wanted(Message, frozen=True, tag="wanted"):
    """Jobs of the worker's types wait here, and none of its slots is offered to this owner."""


class Piece(Message, frozen=True, tag="piece"):
    """A part of a body that was asked for, in order; `last` ends it.

    `at` is where it begins in the body. A worker that asks again over the same connection may get
    parts of both answers: it drops a part that does not begin where the one before ended.
    """

    request: int
    data: bytes
    last: bool
    at: int = 0


class Done(Message, frozen=True, tag="done"):
    """What a request asked for has been done: the output is stored, or the text opened.

    `sealed` answers a `seal`, and `text` an `unseal`.
    """

    request: int
    sealed: Sealed | None = None
    text: str | None = None


class Failed(Message, frozen=True, tag="failed"):
    """A request failed; a `permanent` failure would be the same another time."""

    request: int
    message: str
    permanent: bool


FromOwner = Welcome | Refused | Owned | Leased | Answer | Acked | Wanted | Piece | Done | Failed
