"""A worker dials with a token that permits `work`, and for as long as it grants the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.link_desk import Printed

from streams.access.book import AccessBook
from streams.access.failures import MOST, WITHIN_SECONDS
from streams.access.link_token import read_link_token
from streams.access.permissions import all_roles
from streams.access.token_records import TokenGrant
from streams.access.tokens import Token, mint
from streams.errors import ConfigError, KafkaUnavailable
from streams.link.access import BOOTSTRAP, LinkAccess, NotAdmitted
from streams.link.grant import Grant
from streams.link.token_uses import write_uses
from streams.serde.codec import TENANT
from streams.serde.keys import tenant_key
from streams.settings import Settings

NOW = 1_000_000
SECRET = "a-token-of-the-owner-s-own"
HERE = "192.0.2.1"


class Gate:
    """An owner that knows tokens from their records, with clocks of its own."""

    def __init__(self, bootstrap: str | None = SECRET) -> None:
        self.now, self.seconds, self.is_known = NOW, 0.0, True
        self.book = AccessBook(all_roles({}))
        self.access = LinkAccess(
            self.book, bootstrap, lambda: self.is_known, lambda: self.now, lambda: self.seconds
        )

    def token(self, **changed: object) -> tuple[Token, TokenGrant]:
        token = mint()
        grant = TokenGrant(
            id=token.id,
            name="agents",
            role="worker",
            permissions=frozenset(),
            tenants=frozenset({"acme"}),
            digest=token.digest,
            made_at=NOW,
            made_by="operator",
            expires_at=NOW + 1000,
            pools=("agents", "gpu-*"),
            job_types=("refund.*",),
        )
        grant = replace(grant, **changed)  # type: ignore[arg-type]
        self.write(grant, NOW)
        return token, grant

    def write(self, grant: TokenGrant, at: int) -> None:
        self.book.apply(tenant_key(*grant.key), TENANT.encode(grant.record(at)))

    def dial(self, text: str, remote: str = HERE) -> Grant | NotAdmitted:
        return self.access.authenticate(f"Bearer {text}", remote)

    def admitted(self, text: str) -> Grant:
        found = self.dial(text)
        assert isinstance(found, Grant), found
        return found

    def refused(self, text: str, remote: str = HERE) -> int:
        found = self.dial(text, remote)
        assert isinstance(found, NotAdmitted), found
        return found.status


def test_a_token_grants_its_pools_types_and_tenants() -> None:
    gate = Gate()
    token, _ = gate.token()
    grant = gate.admitted(token.text)
    assert grant.id == token.id
    assert [grant.allows_pool(p) for p in ("agents", "gpu-1", "default")] == [True, True, False]
    assert [grant.allows_type(t) for t in ("refund.card", "refund", "mail")] == [True, False, False]
    assert [grant.covers(tenant) for tenant in ("acme", "beta", "")] == [True, False, False]


def test_a_token_without_limits_grants_everything() -> None:
    gate = Gate()
    token, _ = gate.token(pools=None, job_types=None, tenants=None)
    grant = gate.admitted(token.text)
    assert grant.allows_pool("any")
    assert grant.allows_type("any")
    assert grant.covers("any")


@pytest.mark.parametrize("role", ["operator", "viewer", "gone"])
def test_a_token_that_does_not_permit_work_is_refused(role: str) -> None:
    gate = Gate()
    token, _ = gate.token(role=role, pools=None, job_types=None)
    assert gate.refused(token.text) == 403


@pytest.mark.parametrize("header", [None, "", "Basic abc", "Bearer", "Bearer ", f"Token {SECRET}"])
def test_a_header_without_a_token_is_refused(header: str | None) -> None:
    found = Gate().access.authenticate(header, HERE)
    assert isinstance(found, NotAdmitted)
    assert found.status == 401


def test_an_unknown_token_and_a_wrong_secret_are_refused_alike() -> None:
    gate = Gate()
    token, _ = gate.token()
    assert gate.dial(mint().text) == gate.dial(Token(token.id, mint().secret).text)
    assert gate.refused(mint().text) == 401


def test_a_token_ends_with_its_time_its_revocation_and_its_limits() -> None:
    gate = Gate()
    (first, one), (second, two), (third, three) = gate.token(), gate.token(), gate.token()
    grants = [gate.admitted(each.text) for each in (first, second, third)]
    assert all(gate.access.is_valid(grant) for grant in grants)
    gate.write(one.revoked(NOW + 1, "operator"), NOW + 1)
    gate.write(replace(two, pools=("agents",)), NOW + 1)
    assert [gate.access.is_valid(grant) for grant in grants] == [False, False, True]
    assert (gate.refused(first.text), gate.admitted(second.text).pools) == (401, ("agents",))
    gate.now = NOW + 1000
    assert not gate.access.is_valid(grants[2])
    assert gate.refused(third.text) == 401
    gate.book.apply(tenant_key(*three.key), None)
    assert not gate.access.is_valid(grants[2])


def test_a_token_whose_role_has_lost_the_permission_is_noticed() -> None:
    gate = Gate()
    token, grant = gate.token(pools=None, job_types=None)
    admitted = gate.admitted(token.text)
    gate.write(replace(grant, role="viewer"), NOW + 1)
    assert not gate.access.is_valid(admitted)


def test_no_minted_token_is_judged_before_all_records_are_read() -> None:
    """One that is revoked may be read as a good one before its end is read."""
    gate = Gate()
    token, _ = gate.token()
    gate.is_known = False
    assert (gate.refused(token.text), gate.refused(mint().text)) == (503, 503)
    assert gate.admitted(SECRET) == BOOTSTRAP


def test_the_bootstrap_token_grants_everything_and_is_refused_where_there_is_none() -> None:
    gate = Gate()
    assert gate.admitted(SECRET) == BOOTSTRAP
    assert gate.access.is_valid(BOOTSTRAP)
    assert gate.refused(SECRET + "x") == 401
    assert Gate(bootstrap=None).refused(SECRET) == 401
    assert Gate(bootstrap=None).refused("") == 401


def test_a_minted_token_given_as_the_bootstrap_token_opens_what_the_book_says() -> None:
    token = mint()
    assert Gate(bootstrap=token.text).refused(token.text) == 401


def test_an_address_that_failed_often_waits_and_a_minted_token_is_taken_from_it() -> None:
    gate = Gate()
    token, _ = gate.token()
    for number in range(MOST):
        assert gate.refused(f"wrong-{number}") == 401
    found = gate.dial(SECRET)
    assert isinstance(found, NotAdmitted)
    assert (found.status, found.retry_seconds) == (429, round(WITHIN_SECONDS))
    assert gate.admitted(token.text).id == token.id
    assert gate.dial(SECRET, "192.0.2.2") == BOOTSTRAP
    gate.seconds = WITHIN_SECONDS + 1
    assert gate.admitted(SECRET) == BOOTSTRAP


def test_workers_with_an_ended_token_keep_nobody_at_their_address_out() -> None:
    """They dial again every 5 seconds, perhaps behind the same proxy."""
    gate = Gate()
    token, grant = gate.token()
    gate.write(grant.revoked(NOW, "operator"), NOW + 1)
    for _ in range(MOST):
        assert (gate.refused(token.text), gate.refused(mint().text)) == (401, 401)
    assert gate.admitted(SECRET) == BOOTSTRAP


def test_addresses_of_one_ipv6_network_count_together() -> None:
    gate = Gate()
    for number in range(MOST):
        gate.refused("wrong", f"2001:db8::{number:x}")
    assert gate.refused(SECRET, "2001:db8::ffff") == 429


def test_the_token_of_the_link_is_read_from_either_setting(tmp_path: Path) -> None:
    file = tmp_path / "link.token"
    file.write_text(f"{SECRET}\n")
    assert read_link_token(Settings()) is None
    assert read_link_token(Settings(link_token=SECRET)) == SECRET  # type: ignore[arg-type]
    assert read_link_token(Settings(link_token_file=file)) == SECRET
    assert SECRET not in repr(Settings(link_token=SECRET))  # type: ignore[arg-type]


def test_a_token_of_the_link_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    short, missing = tmp_path / "short", tmp_path / "missing"
    short.write_text("abc")
    for settings, told in (
        (Settings(link_token=SECRET, link_token_file=short), "both set"),  # type: ignore[arg-type]
        (Settings(link_token_file=missing), "cannot read"),
        (Settings(link_token_file=short), "fewer than 16"),
        (Settings(link_token=""), "fewer than 16"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError, match=told):
            read_link_token(settings)


async def test_the_use_of_a_token_is_noted_once_a_minute_while_its_connection_stays() -> None:
    gate, producer = Gate(), Printed()
    token, _ = gate.token(expires_at=NOW + 1_000_000)
    grant = gate.admitted(token.text)
    written: list[int] = []
    for seconds in range(0, 181, 1):
        gate.now = NOW + 1000 * seconds
        assert gate.access.is_valid(grant)
        await write_uses(gate.access.unwritten_uses, producer, 60_000)
        for _, key, value, _ in producer.records[len(written) :]:  # all owners follow them
            gate.book.apply(key, value)
            written.append(seconds)
    assert written == [0, 60, 120, 180]
    assert gate.book.used_at(token.id) == NOW + 180_000
    assert {(topic, partition) for topic, _, _, partition in producer.records} == {("tenants", 0)}


async def test_uses_that_cannot_be_noted_are_noted_later() -> None:
    gate, producer = Gate(), Printed()
    token, _ = gate.token()
    gate.admitted(token.text)
    producer.error = KafkaUnavailable("no")
    await write_uses(gate.access.unwritten_uses, producer, 1)
    producer.error = None
    await write_uses(gate.access.unwritten_uses, producer, 1)
    assert len(producer.records) == 1


def test_the_bootstrap_token_has_no_uses() -> None:
    gate = Gate()
    assert gate.access.is_valid(gate.admitted(SECRET))
    assert gate.access.unwritten_uses(1) == {}
