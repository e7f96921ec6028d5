"""Operators know tokens by the records on `tenants`, and tell who calls and who may no more."""

from __future__ import annotations

import random
from dataclasses import replace

import orjson
import pytest

from streams.access.authentication import Authentication, Denied
from streams.access.book import LISTED_MS, AccessBook
from streams.access.permissions import PERMISSIONS, all_roles
from streams.access.principal import BOOTSTRAP, Principal
from streams.access.token_records import TokenGrant, grant_in, use_record
from streams.access.tokens import Token, mint
from streams.errors import PoisonRecord
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.serde.records import TenantRecord

NOW = 1_000_000


class Desk:
    """A book, its authentication and a clock."""

    def __init__(self, bootstrap: str | None = "boot") -> None:
        self.now = NOW
        self.book = AccessBook(all_roles({"support": ["read", "operate"]}))
        self.access = Authentication(bootstrap, self.book, lambda: self.now)

    def write(self, record: TenantRecord) -> None:
        key = tenant_key(record.tenant_id, record.kind, record.id)
        self.book.apply(key, TENANT.encode(record))

    def token(self, **changed: object) -> tuple[Token, TokenGrant]:
        token = mint()
        grant = replace(granted(token), **changed)  # type: ignore[arg-type]
        self.write(grant.record(NOW))
        return token, grant


def granted(token: Token) -> TokenGrant:
    return TokenGrant(
        id=token.id,
        name="ci",
        role="operator",
        permissions=frozenset(),
        tenants=frozenset({"acme"}),
        digest=token.digest,
        made_at=NOW,
        made_by="operator",
        expires_at=NOW + 1000,
    )


def test_a_token_opens_what_its_record_grants() -> None:
    desk = Desk()
    token, grant = desk.token()
    found = desk.access.of_token(token.text)
    assert isinstance(found, Principal)
    assert (found.id, found.name, found.role) == (f"token:{token.id}", "ci", "operator")
    assert found.permissions == {"read", "payload:read", "operate", "settle"}
    assert found.tenants == frozenset({"acme"})
    assert desk.access.standing(grant.principal_id) == found


def test_a_role_of_the_topology_counts_and_one_that_is_gone_permits_nothing() -> None:
    desk = Desk()
    for role, permissions in (("support", {"read", "operate"}), ("gone", set())):
        token, _ = desk.token(role=role)
        found = desk.access.of_token(token.text)
        assert isinstance(found, Principal)
        assert found.permissions == permissions


def test_permissions_of_its_own_count_and_unknown_ones_do_not() -> None:
    desk = Desk()
    token, _ = desk.token(role="custom", permissions=frozenset({"read", "fly"}), tenants=None)
    found = desk.access.of_token(token.text)
    assert isinstance(found, Principal)
    assert found.permissions == {"read"}
    assert found.tenants is None


@pytest.mark.parametrize(
    "text", ["", "boo", "boot ", "tg_", pytest.param(mint().text, id="unknown"), "\udcff"]
)
def test_other_texts_open_nothing(text: str) -> None:
    assert Desk().access.of_token(text) == Denied("unknown")


def test_the_secret_counts_and_not_the_id_alone() -> None:
    desk = Desk()
    token, _ = desk.token()
    assert desk.access.of_token(Token(token.id, mint().secret).text) == Denied("unknown")


def test_a_token_ends_with_its_time_and_its_revocation() -> None:
    desk = Desk()
    (first, grant), (second, late) = desk.token(), desk.token()
    desk.write(grant.revoked(NOW + 1, "operator").record(NOW + 1))
    assert desk.access.of_token(first.text) == Denied("revoked")
    assert desk.access.standing(grant.principal_id) is None
    desk.now = NOW + 999
    assert isinstance(desk.access.of_token(second.text), Principal)
    desk.now = NOW + 1000
    assert desk.access.of_token(second.text) == Denied("expired")
    assert desk.access.standing(late.principal_id) is None


def test_the_end_of_a_token_is_told_to_its_holder_alone() -> None:
    desk = Desk()
    token, grant = desk.token()
    desk.write(grant.revoked(NOW + 1, "operator").record(NOW + 1))
    assert desk.access.of_token(Token(token.id, mint().secret).text) == Denied("unknown")


def test_the_bootstrap_token_opens_everything_unless_it_is_off() -> None:
    assert Desk().access.of_token("boot") == BOOTSTRAP
    assert Desk().access.standing("operator") == BOOTSTRAP
    assert Desk(bootstrap="tg_like_a_token").access.of_token("tg_like_a_token") == BOOTSTRAP
    off = Desk(bootstrap=None).access
    assert off.of_token("") == off.of_token("boot") == Denied("unknown")
    assert off.standing("operator") is None


def test_who_has_asked_may_do_no_more_once_the_token_may_not() -> None:
    desk = Desk()
    (_, operates), (_, gone), (_, reads) = (
        desk.token(),
        desk.token(role="gone"),
        desk.token(role="custom", permissions=frozenset({"read"})),
    )
    withdrawn = desk.access.withdrawn
    assert withdrawn(operates.principal_id, NOW) is None
    assert withdrawn(gone.principal_id, NOW) == withdrawn(reads.principal_id, NOW) == "restricted"
    assert [desk.access.is_revoked(each.principal_id) for each in (operates, gone)] == [False, True]
    desk.now = NOW + 1000
    assert withdrawn(operates.principal_id, NOW) == "expired"
    assert not desk.access.is_revoked(operates.principal_id)
    desk.write(operates.revoked(NOW + 1, "operator").record(NOW + 1))
    assert withdrawn(operates.principal_id, NOW) == "revoked"


def test_a_token_that_is_forgotten_does_no_more_and_one_that_is_not_heard_of_yet_does() -> None:
    desk = Desk()
    _, grant = desk.token()
    desk.book.apply(tenant_key(*grant.key), None)
    assert desk.access.withdrawn(grant.principal_id, NOW) is None
    desk.now = NOW + LISTED_MS
    assert desk.access.withdrawn(grant.principal_id, NOW) == "expired"


def test_what_the_bootstrap_token_asked_for_ends_with_it_and_a_persons_does_not() -> None:
    assert Desk().access.withdrawn("operator", NOW) is None
    off = Desk(bootstrap=None).access
    assert off.withdrawn("operator", NOW) == "revoked"
    assert off.is_revoked("operator")
    assert off.withdrawn("person:corp:4711", NOW) is None


def test_an_older_record_that_is_read_late_brings_no_token_back() -> None:
    desk = Desk()
    token, grant = desk.token()
    desk.write(grant.revoked(NOW + 1, "operator").record(NOW + 1))
    desk.write(grant.record(NOW))
    assert desk.access.of_token(token.text) == Denied("revoked")


def test_records_in_any_order_lead_to_the_newest() -> None:
    dice = random.Random(7)
    token = mint()
    grant = granted(token)
    records = [replace(grant, name=str(at)).record(at) for at in range(20)]
    for _ in range(20):
        desk = Desk()
        for record in dice.sample(records, len(records)):
            desk.write(record)
        found = desk.book.grant(token.id)
        assert found is not None
        assert found.name == "19"


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"name": 1}', '{"digest": "zz"}', '{"tenants": "*"}']
)
def test_a_record_that_cannot_be_read_closes_its_token(body: str) -> None:
    desk = Desk()
    token, grant = desk.token()
    with pytest.raises(PoisonRecord):
        desk.write(replace(grant.record(NOW + 1), body=body))
    assert desk.access.of_token(token.text) == Denied("unknown")


def test_a_misaddressed_record_grants_nothing() -> None:
    desk, token = Desk(), mint()
    record = granted(token).record(NOW)
    with pytest.raises(PoisonRecord):
        desk.book.apply(tenant_key("", "token", "other"), TENANT.encode(record))
    desk.book.apply(tenant_key("acme", "token", token.id), TENANT.encode(record))
    desk.book.apply(b"no key", b"no value")
    desk.book.apply(None, None)
    assert desk.book.grants() == []
    assert desk.access.of_token(token.text) == Denied("unknown")


def test_a_deleted_record_is_forgotten() -> None:
    desk = Desk()
    token, _ = desk.token()
    desk.book.apply(tenant_key("", "token", token.id), None)
    assert desk.access.of_token(token.text) == Denied("unknown")
    assert desk.book.grants() == []


def test_a_record_is_read_as_it_was_written() -> None:
    grant = granted(mint())
    own = replace(grant, role="custom", permissions=frozenset({"read"}), tenants=None)
    for each in (grant, own, grant.revoked(NOW + 5, "token:x")):
        record = TENANT.decode(TENANT.encode(each.record(NOW)))
        assert grant_in(record) == each
        assert record.disabled == (each.revoked_at is not None)


def test_the_limits_of_a_worker_are_read_as_they_were_written() -> None:
    limited = replace(granted(mint()), role="worker", pools=("a", "b*"), job_types=("t",))
    assert grant_in(TENANT.decode(TENANT.encode(limited.record(NOW)))) == limited


def test_a_record_of_an_earlier_release_has_no_limits() -> None:
    grant = granted(mint())
    record = grant.record(NOW)
    body = orjson.loads(record.body)
    del body["pools"], body["job_types"]
    assert grant_in(replace(record, body=orjson.dumps(body).decode())) == grant


def test_an_administrator_of_an_earlier_release_may_do_all_of_this_one() -> None:
    desk = Desk()
    earlier = frozenset(PERMISSIONS) - {"work"}
    _, custom = desk.token(role="custom", permissions=earlier, tenants=None)
    desk.token(role="custom", permissions=earlier - {"secrets"}, tenants=None)
    assert [each.id for each in desk.book.administrators(NOW)] == [custom.id]
    assert all_roles({"own": earlier})["own"] == set(PERMISSIONS)


def test_a_token_that_is_limited_makes_no_tokens_whatever_its_role_means_now() -> None:
    desk = Desk()
    token, _ = desk.token(role="admin", tenants=None, pools=("a",))
    found = desk.access.of_token(token.text)
    assert isinstance(found, Principal)
    assert found.permissions == set(PERMISSIONS) - {"admin"}
    assert desk.book.administrators(NOW) == []


def test_a_record_has_no_part_of_the_secret() -> None:
    token = mint()
    assert token.secret not in repr(granted(token).record(NOW))


def test_administrators_are_tokens_of_all_tenants_that_may_make_tokens_of_any_kind() -> None:
    desk = Desk()
    _, admin = desk.token(role="admin", tenants=None)
    _, custom = desk.token(role="custom", permissions=frozenset(PERMISSIONS), tenants=None)
    desk.token(role="custom", permissions=frozenset({"admin"}), tenants=None)
    desk.token(role="custom", permissions=frozenset(PERMISSIONS) - {"secrets"}, tenants=None)
    desk.token(role="admin")
    desk.token(role="operator", tenants=None)
    _, over = desk.token(role="admin", tenants=None, expires_at=NOW)
    assert {each.id for each in desk.book.administrators(NOW)} == {admin.id, custom.id}
    desk.write(admin.revoked(NOW + 1, "operator").record(NOW + 1))
    assert [each.id for each in desk.book.administrators(NOW)] == [custom.id]
    assert over.id not in {each.id for each in desk.book.administrators(NOW)}


def test_the_last_use_is_known_at_once_here_and_by_its_record_elsewhere() -> None:
    desk, other = Desk(), Desk()
    token, grant = desk.token()
    other.write(grant.record(NOW))
    assert desk.access.used_at(token.id) is None
    desk.access.of_token(token.text)
    assert desk.access.used_at(token.id) == NOW
    assert desk.access.unwritten_uses(60_000) == {token.id: NOW}
    for each in (desk, other):
        each.write(use_record(token.id, NOW))
        assert each.access.used_at(token.id) == NOW
    desk.now = NOW + 500
    desk.access.of_token(token.text)
    assert desk.access.unwritten_uses(60_000) == {}, "at most once in this time"
    assert desk.access.unwritten_uses(500) == {token.id: NOW + 500}
    other.write(use_record(token.id, NOW - 5))
    assert other.access.used_at(token.id) == NOW, "the latest use counts, whoever wrote it"


def test_a_refused_token_is_not_used() -> None:
    desk = Desk()
    token, _ = desk.token(expires_at=NOW)
    desk.access.of_token(token.text)
    assert desk.access.used_at(token.id) is None
