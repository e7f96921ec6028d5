"""Over real sockets a worker with a token gets what is its own, until the token is revoked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from msgspec.structs import replace as changed
from support.link_desk import EPOCH, PARTITION, LinkDesk, moved, some_bytes
from support.link_services import Client, Echo, InMemory, Tokens, dialed, serving
from support.linked_workers import Partitions, boot, hello

from streams.access.book import AccessBook
from streams.access.permissions import all_roles
from streams.access.token_records import TokenGrant
from streams.access.tokens import Token, mint
from streams.link.access import LinkAccess
from streams.process.wall_clock import wall_ms
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.link.messages import Body, Failed, Piece, Refused, Seal, Unseal, Welcome
from streams.serde.link.messages import Done as DoneMessage
from streams.serde.link.places import ApprovalPlace, written

ASKED = Body(7, PARTITION, "job_a", EPOCH)


class Whole:
    """An owner's server with its access and its answers, over jobs in memory."""

    def __init__(self) -> None:
        self.desk, self.book = LinkDesk(), AccessBook(all_roles({}))
        self.port = 0

    def token(self) -> tuple[Token, TokenGrant]:
        made = mint()
        grant = TokenGrant(
            id=made.id,
            name="agents",
            role="worker",
            permissions=frozenset(),
            tenants=frozenset({"acme"}),
            digest=made.digest,
            made_at=wall_ms(),
            made_by="operator",
            expires_at=wall_ms() + 3_600_000,
            job_types=("draft_*", "mail"),
        )
        self.write(grant)
        return made, grant

    def write(self, grant: TokenGrant) -> None:
        at = grant.revoked_at or grant.made_at
        self.book.apply(tenant_key(*grant.key), TENANT.encode(grant.record(at)))


@contextmanager
def whole() -> Iterator[Whole]:
    found, services = Whole(), InMemory()
    access = LinkAccess(found.book, None, lambda: True)
    services.access = cast("Tokens", access)
    services.answering = cast("Echo", found.desk.answering)
    with serving(Partitions(PARTITION).owner, services) as server:
        found.port = server.port
        yield found


async def welcomed(client: Client, name: str = "w1", boot_: str = "") -> str:
    await client.send(hello(name, boot_))
    found = await client.next()
    assert isinstance(found, Welcome), found
    return found.worker_id


async def joined(client: Client, request: int) -> bytes:
    found = b""
    async with asyncio.timeout(60):
        while True:
            piece = await client.until(lambda message: isinstance(message, Piece | Failed))
            assert isinstance(piece, Piece), piece
            assert (piece.request, piece.at) == (request, len(found))
            found += piece.data
            if piece.last:
                return found


async def test_the_largest_body_comes_whole_over_a_socket() -> None:
    body = some_bytes(25 * 1024 * 1024)
    with whole() as owner:
        token, _ = owner.token()
        job = owner.desk.with_body(body)
        async with dialed(owner.port, token.text) as worker:
            owner.desk.put(moved(job, worker_id=await welcomed(worker)))
            await worker.send(ASKED)
            assert await joined(worker, 7) == body


async def test_another_token_under_the_same_name_and_boot_is_another_worker() -> None:
    with whole() as owner:
        (own, _), (other, _) = owner.token(), owner.token()
        job, same = owner.desk.with_body(b"secret"), boot()
        async with (
            dialed(owner.port, own.text) as worker,
            dialed(owner.port, other.text) as stranger,
        ):
            owner.desk.put(moved(job, worker_id=await welcomed(worker, "w1", same)))
            await welcomed(stranger, "w1", same)
            await stranger.send(ASKED)
            found = await stranger.until(lambda message: isinstance(message, Failed | Piece))
            assert isinstance(found, Failed)
            await worker.send(ASKED)
            assert await joined(worker, 7) == b"secret"


async def test_what_is_sealed_over_the_link_is_opened_over_it() -> None:
    with whole() as owner:
        token, _ = owner.token()
        job, place = owner.desk.leased(), written(ApprovalPlace("pay"))
        async with dialed(owner.port, token.text) as worker:
            owner.desk.put(moved(job, worker_id=await welcomed(worker)))
            asked = Seal(1, PARTITION, "job_a", EPOCH, place, '{"a":1}')
            await worker.send(asked, changed(asked, request=2, epoch=EPOCH - 1))
            sealed = await worker.until(lambda message: isinstance(message, DoneMessage))
            assert isinstance(sealed, DoneMessage)
            assert sealed.sealed is not None
            await worker.send(Unseal(3, PARTITION, "job_a", EPOCH, place, sealed.sealed))
            opened = await worker.until(lambda m: isinstance(m, DoneMessage) and m.request == 3)
            assert isinstance(opened, DoneMessage)
            assert opened.text == '{"a":1}'


async def test_a_token_that_is_revoked_ends_its_connection_in_the_middle_of_a_body() -> None:
    with whole() as owner:
        token, grant = owner.token()
        job = owner.desk.with_body(b"x")
        owner.desk.payloads.hangs = True
        async with dialed(owner.port, token.text) as worker:
            owner.desk.put(moved(job, worker_id=await welcomed(worker)))
            await worker.send(ASKED)
            owner.write(grant.revoked(wall_ms() + 1, "operator"))
            async with asyncio.timeout(60):
                found = await worker.next()
                assert isinstance(found, Refused)
                assert found.reason == "revoked"
                assert await worker.next() is None
        async with dialed(owner.port, token.text) as worker:
            found = await worker.next()
            assert isinstance(found, Refused)
            assert (found.reason, "is revoked" in found.message) == ("token", True)


async def test_a_token_that_does_not_allow_its_handlers_is_refused() -> None:
    with whole() as owner:
        token, _ = owner.token()
        async with dialed(owner.port, token.text) as worker:
            await worker.send(hello("w1", "", "default", "refund"))
            found = await worker.next()
            assert isinstance(found, Refused)
            assert found.reason == "not_allowed"
