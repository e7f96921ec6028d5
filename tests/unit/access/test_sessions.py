"""A session lasts as long as its person is there and has a role, and not a moment longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from support.local_issuer import CLIENT, SECRET, LocalIssuer, running, visit

from streams.access.grants import GroupGrants
from streams.access.oidc.answers import Calls, session_for_issuers
from streams.access.oidc.client import IssuerClient
from streams.access.oidc.issuer import Issuer
from streams.access.people import Desk, People
from streams.access.permissions import ROLES
from streams.access.renewals import AGAIN_MS
from streams.access.sealed_cookies import MOST_CHARS, SealedCookies
from streams.access.session import ABSOLUTE_MS, IDLE_MS, RECHECK_BY_MS, RECHECK_FROM_MS, Session
from streams.access.session_ends import SessionEnd, SessionEnds, end_of, end_of_all
from streams.errors import IssuerUnavailable, PoisonRecord, SignInRefused
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.vault.key_encryption import local_vault

MINUTE = 60_000
VAULT = local_vault(bytes(32))
GRANTS = GroupGrants(ROLES, {"ops": "operator", "audit": "viewer", "root": "admin"})


class Office:
    """People over one issuer, on a clock that is moved by hand."""

    def __init__(self, desks: Mapping[str, Desk], issuer: LocalIssuer) -> None:
        cookies = SealedCookies(VAULT, "session")
        self.people = People(desks, cookies, SessionEnds(), lambda: self.now)
        self.issuer, self.now = issuer, 1_700_000_000_000

    async def session(self) -> Session:
        """The session of the issuer's person."""
        sign_in, url = await self.people.begin("corp", "/")
        return await self.people.finish(await visit(url), sign_in)

    def opened(self, session: Session) -> Session | None:
        return self.people.opened(self.people.sealed(session))


@asynccontextmanager
async def open_office(  # the fixture has the shorter name
    issuer: LocalIssuer, grants: GroupGrants = GRANTS, names: tuple[str, ...] = ("corp",)
) -> AsyncIterator[Office]:
    async with running(issuer), session_for_issuers() as session:
        calls = Calls(session)
        desks = {
            name: Desk(
                IssuerClient(
                    Issuer(name, issuer.url, CLIENT, "http://127.0.0.1:1/back", lambda: SECRET),
                    calls,
                ),
                grants,
            )
            for name in names
        }
        yield Office(desks, issuer)


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    async with open_office(LocalIssuer()) as office:
        yield office


async def test_a_session_is_its_person(office: Office) -> None:
    session = await office.session()
    opened = office.opened(session)
    assert opened == session
    found, principal = await office.people.current(session)
    assert found is session
    assert (principal.id, principal.name, principal.role) == (
        "person:corp:ada",
        "Ada Lovelace",
        "operator",
    )
    assert (principal.permissions, principal.tenants) == (ROLES["operator"], None)


async def test_one_subject_of_two_issuers_is_two_persons() -> None:
    async with open_office(LocalIssuer(), names=("corp", "guests")) as office:
        ids = set[str]()
        for name in ("corp", "guests"):
            sign_in, url = await office.people.begin(name, "/")
            session = await office.people.finish(await visit(url), sign_in)
            ids.add((await office.people.current(session))[1].id)
    assert ids == {"person:corp:ada", "person:guests:ada"}


@pytest.mark.parametrize(
    ("given", "roles"),
    [
        (["ops", "audit", "elsewhere"], "operator+viewer"),
        ("root", "admin"),
        (["root", 7, None], "admin"),
    ],
)
async def test_all_roles_of_a_persons_groups_count(
    office: Office, given: object, roles: str
) -> None:
    office.issuer.claims = {"groups": given}
    _, principal = await office.people.current(await office.session())
    assert principal.role == roles
    assert principal.permissions == frozenset().union(*(ROLES[r] for r in roles.split("+")))


@pytest.mark.parametrize("given", [[], ["elsewhere"], None, {"ops": 1}, [["ops"]], 7])
async def test_whom_no_group_gives_a_role_gets_no_session(office: Office, given: object) -> None:
    office.issuer.claims = {"groups": given}
    with pytest.raises(SignInRefused) as refusal:
        await office.session()
    assert (refusal.value.reason, refusal.value.person) == ("no-role", "person:corp:ada")


@pytest.mark.parametrize(
    ("groups", "tenants"),
    [(["ops", "eu"], {"acme", "beta"}), (["ops", "eu", "all"], None), (["ops"], False)],
)
async def test_groups_give_tenants(groups: list[str], tenants: object) -> None:
    grants = replace(GRANTS, tenants={"eu": ("acme", "beta"), "all": ("*",)})
    async with open_office(LocalIssuer(), grants) as office:
        office.issuer.person.groups = groups
        if tenants is False:
            with pytest.raises(SignInRefused):
                await office.session()
            return
        _, principal = await office.people.current(await office.session())
    assert principal.tenants == tenants


async def test_a_name_does_not_change_how_it_is_shown(office: Office) -> None:
    office.issuer.claims = {"name": "Ada\u202e\x1b[31m\n" + "a" * 300}
    name = (await office.session()).name
    assert (name[:7], len(name)) == ("Ada[31m", 200)


async def test_a_session_ends_when_it_is_not_used(office: Office) -> None:
    session = await office.session()
    office.now += IDLE_MS - 1
    assert office.opened(session) is not None
    office.now += 1
    assert office.opened(session) is None
    assert office.opened(session.seen(office.now - MINUTE)) is not None


async def test_a_session_ends_although_it_is_used(office: Office) -> None:
    session = await office.session()
    office.now += ABSOLUTE_MS - 1
    assert office.opened(session.seen(office.now)) is not None
    office.now += 1
    assert office.opened(session.seen(office.now)) is None


async def test_use_is_written_into_the_cookie_once_a_minute(office: Office) -> None:
    session = await office.session()
    office.now += MINUTE - 1
    assert (await office.people.current(session))[0] is session
    office.now += 1
    assert (await office.people.current(session))[0].seen_at == office.now


async def test_what_no_person_does_prolongs_nothing(office: Office) -> None:
    session = await office.session()
    office.now += MINUTE
    assert (await office.people.current(session, is_use=False))[0] is session
    office.now += RECHECK_FROM_MS
    found, _ = await office.people.current(session, is_use=False)
    assert (found.seen_at, found.checked_at) == (session.seen_at, office.now)


async def test_what_is_open_stays_open_until_the_groups_must_be_asked_for(office: Office) -> None:
    session = await office.session()
    office.now += RECHECK_BY_MS - 1
    assert office.people.stands(session)
    office.now += 1
    assert not office.people.stands(session)


async def test_what_is_open_stays_open_while_other_calls_have_the_groups_asked_for(
    office: Office,
) -> None:
    session = await office.session()
    office.now += RECHECK_FROM_MS
    await office.people.current(session)
    office.now += RECHECK_BY_MS - 1
    assert office.people.stands(session)


async def test_what_is_open_ends_with_the_role_or_the_session(office: Office) -> None:
    session, other = await office.session(), await office.session()
    office.issuer.person.groups = ["audit"]
    office.now += RECHECK_FROM_MS
    await office.people.current(session)
    assert not office.people.stands(session)
    assert office.people.stands(other)
    apply(office.people.ends, end_of(other, office.now, "operator"))
    assert not office.people.stands(other)


@pytest.mark.parametrize("is_disabled", [False, True])
async def test_what_is_open_ends_once_the_issuer_vouches_no_more(
    office: Office, is_disabled: bool
) -> None:
    """Another call of the session was refused: its streams do not go on for five more minutes."""
    session = await office.session()
    office.issuer.person.groups = []
    if is_disabled:
        office.issuer.answers["/token"] = _invalid_grant
    office.now += RECHECK_FROM_MS
    assert office.people.stands(session)
    with pytest.raises(SignInRefused):
        await office.people.current(session)
    assert not office.people.stands(session)


async def _invalid_grant(_: web.Request) -> web.Response:
    return web.json_response({"error": "invalid_grant"}, status=400)


@pytest.mark.parametrize("change", ["", "x", "A" * 10_000, "é", "=", "AAAA"])
async def test_what_was_not_sealed_here_is_no_session(office: Office, change: str) -> None:
    assert office.people.opened(change) is None


async def test_a_cookie_of_another_purpose_or_vault_is_no_session(office: Office) -> None:
    session = await office.session()
    other_purpose = SealedCookies(VAULT, "sign-in")
    other_vault = SealedCookies(local_vault(b"x" * 32), "session")
    for cookies in (other_purpose, other_vault):
        assert office.people.opened(cookies.seal(session.encoded())) is None


async def test_a_session_of_an_issuer_that_was_replaced_is_over(office: Office) -> None:
    session = await office.session()
    assert office.opened(replace(session, fingerprint="another")) is None
    assert office.opened(replace(session, issuer="gone")) is None


async def test_groups_are_asked_for_again(office: Office) -> None:
    session = await office.session()
    office.issuer.person.groups = ["audit"]
    office.now += RECHECK_FROM_MS - 1
    assert (await office.people.current(session))[1].role == "operator"
    office.now += 1
    found, principal = await office.people.current(session)
    assert (principal.role, found.checked_at) == ("viewer", office.now)


async def test_who_lost_the_group_loses_the_session(office: Office) -> None:
    session = await office.session()
    office.issuer.person.groups = []
    office.now += RECHECK_FROM_MS
    with pytest.raises(SignInRefused) as refusal:
        await office.people.current(session)
    assert refusal.value.reason == "no-role"


async def test_calls_at_once_and_with_the_older_cookie_share_one_refresh_token(
    office: Office,
) -> None:
    """The issuer takes each refresh token once, and a browser sends several calls at once."""
    session = await office.session()
    office.now += RECHECK_FROM_MS
    found = await asyncio.gather(*(office.people.current(session) for _ in range(20)))
    found.append(await office.people.current(session))
    assert len({each.refresh_token for each, _ in found}) == 1
    assert office.issuer.calls["/token"] == 2
    office.now += RECHECK_FROM_MS
    assert (await office.people.current(session))[0].checked_at == office.now


async def test_an_issuer_that_is_away_ends_nothing_before_its_time(office: Office) -> None:
    session = await office.session()
    office.issuer.answers["/token"] = _away
    office.now += RECHECK_FROM_MS
    for _ in range(3):
        assert (await office.people.current(session))[1].role == "operator"
    assert office.issuer.calls["/token"] == 2
    office.now += RECHECK_BY_MS - RECHECK_FROM_MS - 1
    assert (await office.people.current(session))[1].role == "operator"
    office.now += 1
    with pytest.raises(IssuerUnavailable):
        await office.people.current(session)
    del office.issuer.answers["/token"]
    office.now += AGAIN_MS
    assert (await office.people.current(session))[1].role == "operator"


async def _away(_: web.Request) -> web.Response:
    return web.json_response({}, status=503)


async def test_without_a_refresh_token_people_sign_in_again(office: Office) -> None:
    office.issuer.renews = False
    session = await office.session()
    office.now += RECHECK_BY_MS - 1
    assert (await office.people.current(session))[1].role == "operator"
    office.now += 1
    with pytest.raises(SignInRefused) as refusal:
        await office.people.current(session)
    assert refusal.value.reason == "session-over"


async def test_an_issuer_that_renews_without_an_id_token_is_asked_once(office: Office) -> None:
    """It may (OpenID Connect Core 1.0, section 12.2), and then nothing is known of the groups."""
    session = await office.session()
    office.issuer.answers["/token"] = _no_id_token
    office.now += RECHECK_FROM_MS
    for _ in range(2):
        assert (await office.people.current(session))[1].role == "operator"
        office.now += (RECHECK_BY_MS - RECHECK_FROM_MS) // 2
    assert office.issuer.calls["/token"] == 2
    office.now += 1
    with pytest.raises(SignInRefused) as refusal:
        await office.people.current(session)
    assert refusal.value.reason == "token-missing"


async def _no_id_token(_: web.Request) -> web.Response:
    return web.json_response({"access_token": "unused", "token_type": "Bearer"})


async def test_a_refresh_token_that_fits_in_no_cookie_is_left_out(office: Office) -> None:
    session = replace(await office.session(), refresh_token="r" * 5_000)
    text = office.people.sealed(session)
    opened = office.people.opened(text)
    assert opened is not None
    assert (opened.refresh_token, len(text) <= MOST_CHARS) == (None, True)
    with pytest.raises(SignInRefused, match="do not fit"):
        office.people.sealed(replace(session, name="n" * 5_000))


def apply(ends: SessionEnds, end: SessionEnd, *, delete: bool = False) -> None:
    value = None if delete else TENANT.encode(end.record())
    ends.apply(tenant_key(*end.key), value)


async def test_a_session_that_was_ended_does_not_open(office: Office) -> None:
    one, other = await office.session(), await office.session()
    apply(office.people.ends, end_of(one, office.now, "person:corp:ada"))
    assert office.opened(one) is None
    assert office.opened(other) is not None


async def test_all_sessions_of_a_person_end_and_later_ones_do_not(office: Office) -> None:
    session = await office.session()
    office.now += MINUTE
    end = end_of_all("person:corp:ada", office.now, "operator", "left the company")
    apply(office.people.ends, end)
    assert office.opened(session) is None
    office.now += 1
    assert office.opened(await office.session()) is not None


async def test_an_older_end_that_is_read_later_brings_no_session_back(office: Office) -> None:
    older = end_of_all("person:corp:ada", office.now - MINUTE, "operator", "")
    session = await office.session()
    apply(office.people.ends, end_of_all("person:corp:ada", office.now, "operator", ""))
    apply(office.people.ends, older)
    assert office.opened(session) is None


async def test_an_end_is_forgotten_when_its_sessions_are_over_anyway(office: Office) -> None:
    end = end_of(await office.session(), office.now, "operator")
    apply(office.people.ends, end)
    assert office.people.ends.forgettable(office.now + ABSOLUTE_MS) == []
    assert office.people.ends.forgettable(office.now + ABSOLUTE_MS + 1) == [end.key]
    apply(office.people.ends, end, delete=True)
    assert office.people.ends.forgettable(office.now + ABSOLUTE_MS + 1) == []


def test_records_of_other_kinds_end_nothing_and_a_broken_one_is_told() -> None:
    ends = SessionEnds()
    ends.apply(None, b"x")
    ends.apply(tenant_key("acme", "tenant", ""), b"x")
    end = end_of_all("person:corp:ada", 1, "operator", "")
    broken = replace(end.record(), body="{}")
    with pytest.raises(PoisonRecord):
        ends.apply(tenant_key(*end.key), TENANT.encode(broken))
