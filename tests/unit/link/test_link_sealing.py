"""A worker without keys seals for the job of its lease, and opens what belongs to it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace as changed
from support.link_desk import EPOCH, PARTITION, LinkDesk, Wire

from streams import user_json
from streams.artifacts.sealing import place_of
from streams.link.sealing import MOST_BYTES
from streams.serde.ids import approval_id
from streams.serde.link.messages import Done, Failed, Seal, Unseal
from streams.serde.link.places import ApprovalPlace, ArtifactPlace, read, written
from streams.serde.records import Sealed
from streams.vault.sealed_json import open_with, seal_with

APPROVAL = written(ApprovalPlace("pay order 7"))
VALUE = {"prompt": "Pay?", "arguments": [{"amount": 12.5, "to": "Zoë"}]}
TEXT = user_json.write(VALUE).decode()
SEAL = Seal(1, PARTITION, "job_a", EPOCH, APPROVAL, TEXT)


def unseal(sealed_: Sealed, place: str = APPROVAL, job_id: str = "job_a") -> Unseal:
    return Unseal(2, PARTITION, job_id, EPOCH, place, sealed_)


async def done(desk: LinkDesk, request: Seal | Unseal, wire: Wire | None = None) -> Done:
    (found,) = await desk.ask(wire or Wire(), request).answers(1)
    assert isinstance(found, Done), found
    return found


async def refused(desk: LinkDesk, request: Seal | Unseal, wire: Wire | None = None) -> Failed:
    return await desk.ask(wire or Wire(), request).failure()


async def seal(desk: LinkDesk, request: Seal = SEAL) -> Sealed:
    found = (await done(desk, request)).sealed
    assert found is not None
    return found


def test_a_place_is_read_as_it_was_written() -> None:
    for place in (ApprovalPlace("a key with spaces"), ArtifactPlace("art_1", "job_a")):
        assert read(written(place)) == place


@pytest.mark.parametrize("has_key", [True, False])
async def test_an_approval_is_sealed_so_that_the_api_opens_it(has_key: bool) -> None:
    desk = LinkDesk()
    job = desk.leased()
    if has_key:
        desk.key("acme")
    found = await seal(desk)
    id_ = approval_id("acme", job.scope, "pay order 7")
    assert await open_with(desk.keyring, "acme", id_, found) == VALUE


async def test_what_people_gave_instead_is_opened() -> None:
    desk = LinkDesk()
    job = desk.leased()
    desk.key("acme")
    edit = seal_with(desk.keyring, "acme", approval_id("acme", job.scope, "pay order 7"), VALUE)
    assert (await done(desk, unseal(edit))).text == TEXT


async def test_the_key_of_an_artifact_is_sealed_so_that_the_api_opens_it() -> None:
    desk = LinkDesk()
    desk.leased()
    desk.key("acme")
    place, purpose = written(ArtifactPlace("art_1", "job_a")), place_of("acme", "art_1", "job_a")
    found = await seal(desk, changed(SEAL, place=place, text='"c2VjcmV0"'))
    assert await open_with(desk.keyring, "acme", purpose, found) == "c2VjcmV0"
    own = seal_with(desk.keyring, "acme", purpose, "c2VjcmV0")
    assert (await done(desk, unseal(own, place))).text == '"c2VjcmV0"'


async def test_an_artifact_of_another_job_of_the_tenant_is_opened_and_not_sealed() -> None:
    desk = LinkDesk()
    desk.leased()
    desk.leased("job_b")
    place = written(ArtifactPlace("art_1", "job_b"))
    theirs = await seal(desk, changed(SEAL, job_id="job_b", place=place, text='"k"'))
    assert (await done(desk, unseal(theirs, place))).text == '"k"'
    assert (await refused(desk, changed(SEAL, place=place))).permanent


async def test_what_was_sealed_for_another_job_key_or_life_stays_closed() -> None:
    desk = LinkDesk()
    job = desk.leased()
    desk.leased("job_b")
    found = await seal(desk)
    other_key = written(ApprovalPlace("pay order 8"))
    artifact = written(ArtifactPlace("art_1", "job_a"))
    for request in (
        unseal(found, job_id="job_b"),
        unseal(found, other_key),
        unseal(found, artifact),
    ):
        assert (await refused(desk, request)).permanent
    desk.leased(scope=job.scope + ".next")
    assert (await refused(desk, unseal(found))).permanent


@pytest.mark.parametrize("has_keys", [True, False])
async def test_what_was_sealed_for_another_tenant_stays_closed(has_keys: bool) -> None:
    """Its place is the same: the ids of two tenants' jobs may be equal."""
    desk = LinkDesk()
    if has_keys:
        desk.key("beta")
    desk.leased(tenant_id="beta")
    place = written(ArtifactPlace("art_1", "job_a"))
    theirs = await seal(desk, changed(SEAL, place=place))
    desk.leased(tenant_id="acme")
    if theirs.key_id:
        desk.key("acme")
        theirs = Sealed(desk.key("acme").key_id, theirs.data)
    assert (await refused(desk, unseal(theirs, place))).permanent


@pytest.mark.parametrize("wire", [Wire("worker_b:1"), Wire("worker_a:2")])
async def test_without_the_living_lease_nothing_is_sealed_or_opened(wire: Wire) -> None:
    desk = LinkDesk()
    desk.leased()
    found = await seal(desk)
    for request in (SEAL, unseal(found)):
        failed = await refused(desk, request, Wire(wire.worker_id))
        assert "no living lease" in failed.message
    for request in (SEAL, unseal(found)):
        failed = await refused(desk, changed(request, epoch=EPOCH - 1))
        assert "no living lease" in failed.message


async def test_nothing_is_sealed_or_opened_for_an_erased_tenant() -> None:
    desk = LinkDesk()
    desk.leased()
    desk.key("acme")
    found = await seal(desk)
    desk.erase("acme")
    assert (await refused(desk, SEAL)).permanent
    assert (await refused(desk, unseal(found))).permanent


@pytest.mark.parametrize(
    "changes",
    [
        {"text": "no json"},
        {"text": "NaN"},
        {"text": "1" * 400},
        {"text": f'"{"x" * MOST_BYTES}"'},
        {"place": "data key key_1"},
        {"place": ""},
        {"place": "artifact art_1"},
        {"place": "approval "},
    ],
    ids=["text", "nan", "long", "large", "place of a key", "none", "no job", "no key"],
)
async def test_a_text_or_place_that_cannot_be_sealed_is_a_permanent_failure(
    changes: dict[str, Any],
) -> None:
    desk = LinkDesk()
    desk.leased()
    assert (await refused(desk, changed(SEAL, **changes))).permanent


async def test_damaged_bytes_are_a_permanent_failure() -> None:
    desk = LinkDesk()
    desk.leased()
    for data in (b"", b"\xff" * 2, b"\0\0" + b"x" * 40):
        assert (await refused(desk, unseal(Sealed("", data)))).permanent
    found = desk.key("acme")
    assert (await refused(desk, unseal(Sealed(found.key_id, b"x" * 40)))).permanent
    assert (await refused(desk, unseal(Sealed(found.key_id, b"")))).permanent
