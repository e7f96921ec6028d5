"""A worker's credentials: who may have one, how long it is kept, and what a bad provider does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pydantic import SecretStr

from streams.errors import PermanentError, TransientError
from streams.redaction.secrets import KnownSecrets
from streams.topology.credentials import CredentialDeclaration
from streams.worker.credentials import credentials as module
from streams.worker.credentials.credentials import Credentials, Sources
from streams.worker.credentials.provider import Credential, Scope
from streams.worker.credentials.secret import Secret

SCOPE = Scope("stripe", "acme", "refund")
Given = Callable[[], Awaitable[Credential]]


class Played:
    """A provider that a test scripts, and a clock that it moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked: list[tuple[str, Scope]] = []
        self.given: Given = self.value
        self.text = "secret-1"
        self.secrets = KnownSecrets()
        declared = CredentialDeclaration(
            "stripe", "played", "at/{tenant}", tenants=("acme", "b*"), job_types=("refund",)
        )
        sources = Sources({"stripe": declared}.get, {"played": self})
        self.credentials = Credentials(sources, self.secrets, lambda: self.now)

    async def get(self, reference: str, scope: Scope) -> Credential:
        self.asked.append((reference, scope))
        return await self.given()

    async def value(self) -> Credential:
        return Credential(SecretStr(self.text), 100.0)


@pytest.fixture
def played() -> Played:
    return Played()


def test_its_text_is_whole_and_its_repr_is_masked() -> None:
    found = Secret("secret-1")
    assert f"Bearer {found}" == "Bearer secret-1"
    assert "secret-1" not in repr({"key": found})


async def test_a_value_is_kept_until_shortly_before_its_end(played: Played) -> None:
    assert await played.credentials.get(SCOPE) == "secret-1"
    played.now, played.text = 89.9, "secret-2"
    assert await played.credentials.get(SCOPE) == "secret-1"
    assert played.asked == [("at/acme", SCOPE)]
    played.now = 90.0
    assert await played.credentials.get(SCOPE) == "secret-2"
    assert set(played.secrets.forms) >= {"secret-1", "secret-2"}


async def test_each_tenant_has_its_own(played: Played) -> None:
    await played.credentials.get(SCOPE)
    await played.credentials.get(Scope("stripe", "beta", "refund"))
    assert [reference for reference, _ in played.asked] == ["at/acme", "at/beta"]


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        (Scope("strip", "acme", "refund"), "not in the topology"),
        (Scope("stripe", "corp", "refund"), "not for jobs of type 'refund' of tenant 'corp'"),
        (Scope("stripe", "acme", "mail"), "not for jobs of type 'mail'"),
    ],
)
async def test_a_job_out_of_scope_gets_none(played: Played, scope: Scope, why: str) -> None:
    await played.credentials.get(SCOPE)
    with pytest.raises(PermanentError, match=why):
        await played.credentials.get(scope)
    assert len(played.asked) == 1


async def test_jobs_that_ask_at_once_share_a_question(played: Played) -> None:
    found = await asyncio.gather(*(played.credentials.get(SCOPE) for _ in range(100)))
    assert (set(found), len(played.asked)) == ({"secret-1"}, 1)


async def test_a_job_that_ends_while_it_asks_takes_no_answer_from_others(played: Played) -> None:
    answer: asyncio.Future[Credential] = asyncio.get_running_loop().create_future()
    played.given = lambda: answer
    first, second = (asyncio.create_task(played.credentials.get(SCOPE)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    answer.set_result(Credential(SecretStr("secret-1"), 100.0))
    assert await second == "secret-1"


async def test_a_provider_that_hangs_is_given_up(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.02)

    async def hangs() -> Credential:
        await asyncio.Event().wait()
        raise AssertionError

    async def hangs_on() -> Credential:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await ended.wait()
        raise AssertionError

    ended = asyncio.Event()
    for given in (hangs, hangs_on):
        played.given = given
        with pytest.raises(TransientError, match=r"'played' did not answer within 0\.02 s"):
            await asyncio.gather(*(played.credentials.get(SCOPE) for _ in range(3)))
    ended.set()


async def test_a_revoked_one_is_not_used_on(played: Played) -> None:
    async def revoked() -> Credential:
        raise PermanentError("revoked on Monday")

    await played.credentials.get(SCOPE)
    played.now, played.given = 90.0, revoked
    for _ in range(2):
        with pytest.raises(PermanentError, match=r"'stripe' .*: revoked on Monday"):
            await played.credentials.get(SCOPE)


async def test_while_its_provider_is_away_a_value_is_used_to_its_end(played: Played) -> None:
    async def away() -> Credential:
        raise TransientError("no answer")

    await played.credentials.get(SCOPE)
    played.given = away
    for played.now in (94.0, 98.9, 99.1):
        assert await played.credentials.get(SCOPE) == "secret-1"
    assert len(played.asked) == 3  # once more at 94 s, and five seconds later
    played.now = 100.0
    with pytest.raises(TransientError, match="no answer"):
        await played.credentials.get(SCOPE)


async def test_an_unforeseen_error_is_told_by_its_type_alone(played: Played) -> None:
    async def breaks() -> Credential:
        raise ValueError("cannot parse secret-1")

    played.given = breaks
    with pytest.raises(TransientError, match="failed with ValueError") as error:
        await played.credentials.get(SCOPE)
    assert (error.value.__context__, error.value.__cause__) == (None, None)


async def test_a_value_that_redaction_would_find_everywhere_is_refused(played: Played) -> None:
    played.text = "short"
    with pytest.raises(PermanentError, match="fewer than 6 characters"):
        await played.credentials.get(SCOPE)
