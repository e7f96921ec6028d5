"""People sign in with a browser, over real HTTP, and nobody else gets or uses their session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from aiohttp import ClientResponse, ClientSession, CookieJar, DummyCookieJar, web
from aiohttp.test_utils import TestServer, unused_port
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY
from support.callers import AskedByAnybody
from support.local_issuer import CLIENT, SECRET, LocalIssuer, running
from yarl import URL

from streams.access import session
from streams.access.authentication import Authentication
from streams.access.book import AccessBook
from streams.access.failures import MOST
from streams.access.permissions import ADMIN, OPERATE, READ, ROLES
from streams.access.session_ends import SessionEnds
from streams.api.live.tickets import Tickets
from streams.api.operator_state import AppState
from streams.api.refused_attempts import RefusedAttempts
from streams.api.serving.access import ACCESS, Access, authenticated
from streams.api.serving.call import EVERY_TENANT, PRINCIPAL, SHARED, STANDS, Calls
from streams.api.serving.middlewares import problems
from streams.api.serving.session import DESK, renew_cookie
from streams.api.serving.state import STATE
from streams.api.session import http as calls
from streams.api.session.desk import public_origin, sign_in_desk
from streams.api.session.next_path import is_path_here
from streams.api.session.session_request import EndRequest
from streams.errors import ConfigError
from streams.serde.records import AuditEntry
from streams.settings import Settings
from streams.topology.issuers import IssuerDeclaration
from streams.topology.load import load
from streams.vault.key_encryption import local_vault

VAULT = local_vault(bytes(32))


class State(AskedByAnybody):
    """What the calls need of the operator; it reads nothing of what is written."""

    entry = AppState.entry
    refused = AppState.refused

    def __init__(self) -> None:
        self.session_ends = SessionEnds()
        self.written: list[tuple[Any, bool]] = []
        self.entries: list[AuditEntry] = []
        self.refused_attempts = RefusedAttempts()

    async def set_tenant(self, key: Any, record: Any, partition: int, entry: Any = None) -> int:
        assert partition == 0
        self.written.append((key, record is not None))
        await self.audited(entry)
        return len(self.written)

    async def audited(self, entry: AuditEntry | None = None, *_: Any) -> list[int]:
        self.entries += [] if entry is None else [entry]
        return []


jobs = Calls()


@jobs.get("/v1/jobs/1", of=SHARED, needs=READ)
async def show_job(request: web.Request) -> web.Response:
    return web.json_response({"by": request[PRINCIPAL].id, "stands": request[STANDS]()})


@jobs.post("/v1/jobs/1/cancel", of=SHARED, needs=OPERATE, verb="job.cancel")
async def cancel_job(request: web.Request) -> web.Response:
    return web.json_response({"by": request[PRINCIPAL].id})


@jobs.post("/v1/vault/rewrap", of=EVERY_TENANT, needs=ADMIN, verb="vault.rewrap")
async def administrate(request: web.Request) -> web.Response:
    return web.json_response({"by": request[PRINCIPAL].id})


@dataclass
class Operator:
    """A running operator, its issuers, and its state."""

    origin: str
    issuers: dict[str, LocalIssuer]
    state: State
    app: web.Application

    def browser(self) -> ClientSession:
        """A browser without cookies."""
        jar = CookieJar(unsafe=True, treat_as_secure_origin=[URL(self.origin)])
        return ClientSession(cookie_jar=jar)

    def url(self, path: str) -> URL:
        return URL(self.origin + path, encoded=True)


@asynccontextmanager
async def operator(monkeypatch: pytest.MonkeyPatch, *names: str) -> AsyncIterator[Operator]:
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    port, state = unused_port(), State()
    origin = f"http://127.0.0.1:{port}"
    issuers = {name: LocalIssuer() for name in names}
    async with AsyncExitStack() as stack:
        for each in issuers.values():
            await stack.enter_async_context(running(each))
        yield await stack.enter_async_context(_served(origin, port, issuers, state))


@asynccontextmanager
async def _served(
    origin: str, port: int, issuers: dict[str, LocalIssuer], state: State
) -> AsyncIterator[Operator]:
    declared = {
        name: IssuerDeclaration(
            name, each.url, CLIENT, "env:OIDC_SECRET", roles={"ops": "operator"}
        )
        for name, each in issuers.items()
    }
    topology = replace(load(), issuers=declared)
    known = Authentication("admin", AccessBook(ROLES), lambda: 0)
    access = Access(known, Tickets(VAULT), open_schemas=True)
    app = web.Application(middlewares=[problems, authenticated(access)])
    app[STATE], app[ACCESS] = state, access  # type: ignore[misc]
    app.on_response_prepare.append(renew_cookie)
    app.add_routes([*calls.calls, *jobs])
    settings = Settings(public_url=origin)
    async with sign_in_desk(settings, topology, VAULT, state.session_ends, lambda _: None) as desk:
        app[DESK] = desk
        async with TestServer(app, port=port):
            yield Operator(origin, issuers, state, app)


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Operator]:
    async with operator(monkeypatch, "corp") as made:
        yield made


async def to_issuer(browser: ClientSession, at: Operator, query: str = "") -> URL:
    """Where the browser is sent to sign in."""
    async with browser.get(at.url(f"/v1/session/login{query}"), allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()
        return URL(answer.headers["Location"], encoded=True)


async def back(browser: ClientSession, where: URL) -> URL:
    """Where the issuer sends the browser back to."""
    async with browser.get(where, allow_redirects=False) as answer:
        return URL(answer.headers["Location"], encoded=True)


async def sign_in(browser: ClientSession, at: Operator, query: str = "") -> ClientResponse:
    """The answer to a browser that comes back from the issuer."""
    where = await back(browser, await to_issuer(browser, at, query))
    return await browser.get(where, allow_redirects=False)


async def shown(browser: ClientSession, at: Operator) -> dict[str, Any]:
    async with browser.get(at.url("/v1/session")) as answer:
        assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
        found: dict[str, Any] = await answer.json()
        return found


async def reason(answer: ClientResponse) -> tuple[int, str]:
    """The status of a refusal and why."""
    problem = await answer.json()
    return answer.status, problem.get("reason") or problem["type"].rpartition(":")[2]


async def test_a_person_signs_in_and_calls(served: Operator) -> None:
    async with served.browser() as browser:
        answer = await sign_in(browser, served, "?next=/approvals/appr_1%3Fx%3D1")
        assert (answer.status, answer.headers["Location"]) == (303, "/approvals/appr_1?x=1")
        found = await shown(browser, served)
        assert found["signed_in"]
        assert found["principal"]["id"] == "person:corp:ada"
        assert found["principal"]["tenants"] == ["*"]
        async with browser.get(served.url("/v1/jobs/1")) as answer:
            assert await answer.json() == {"by": "person:corp:ada", "stands": True}


async def test_sign_ins_are_counted_by_what_became_of_them(served: Operator) -> None:
    before = {outcome: counted("corp", outcome) for outcome in ("done", "no-role")}
    async with served.browser() as browser:
        await sign_in(browser, served)
        served.issuers["corp"].person.groups = []
        await sign_in(browser, served)
        async with browser.get(served.url("/v1/session/callback/any%0Aname?state=x")) as answer:
            assert answer.status == 403
    after = {outcome: counted("corp", outcome) for outcome in before}
    assert after == {outcome: count + 1 for outcome, count in before.items()}
    assert counted("unknown", "state-unknown")


def counted(issuer: str, outcome: str) -> float:
    labels = {"issuer": issuer, "outcome": outcome}
    return REGISTRY.get_sample_value("tidegate_sign_ins_total", labels) or 0.0


async def test_a_person_may_do_what_the_role_permits(served: Operator) -> None:
    async with served.browser() as browser:
        await sign_in(browser, served)
        headers = {"X-CSRF-Token": (await shown(browser, served))["csrf_token"]}
        for path, status in (("/v1/jobs/1/cancel", 200), ("/v1/vault/rewrap", 403)):
            async with browser.post(served.url(path), headers=headers) as answer:
                assert answer.status == status
        async with browser.post(served.url("/v1/session/end"), headers=headers, json={}) as answer:
            assert await reason(answer) == (403, "permission-missing")


async def test_a_sign_in_and_the_ends_of_sessions_have_entries(served: Operator) -> None:
    async with served.browser() as browser:
        for everywhere in (False, True):
            await sign_in(browser, served)
            headers = {"X-CSRF-Token": (await shown(browser, served))["csrf_token"]}
            url, body = served.url("/v1/session/logout"), {"everywhere": everywhere}
            async with browser.post(url, json=body, headers=headers) as answer:
                assert answer.status == 200
    told = [(e.verb, e.principal, e.target, e.outcome) for e in served.state.entries]
    ada = "person:corp:ada"
    of_one = [("session.login", ada, ada, "done"), ("session.logout", ada, ada, "done")]
    assert told == of_one * 2


async def test_a_refused_sign_in_has_an_entry_if_the_issuer_vouches_for_the_person(
    served: Operator,
) -> None:
    """Of all others nobody knows who they are."""
    served.issuers["corp"].person.groups = ["elsewhere"]
    async with served.browser() as browser:
        assert await reason(await sign_in(browser, served)) == (403, "no-role")
        served.issuers["corp"].claims = {"aud": "another"}
        assert await reason(await sign_in(browser, served)) == (403, "token-audience")
        async with browser.get(served.url("/v1/session/callback/corp?state=x")) as answer:
            assert await reason(answer) == (403, "state-unknown")
    (entry,) = served.state.entries
    assert (entry.verb, entry.outcome, entry.reason) == ("session.login", "refused", "no_role")
    assert (entry.principal, entry.role) == ("person:corp:ada", "person")
    assert entry.target == "/v1/session/callback/corp"
    assert "code" not in entry.target + (entry.detail or "")


async def test_without_a_session_calls_need_a_token(served: Operator) -> None:
    async with ClientSession() as client, client.get(served.url("/v1/jobs/1")) as answer:
        assert await reason(answer) == (401, "unauthorized")


async def test_the_cookie_is_bound_to_this_host_and_no_script_reads_it(served: Operator) -> None:
    async with served.browser() as browser:
        answer = await sign_in(browser, served)
        cookies = [
            c for c in answer.headers.getall("Set-Cookie") if c.startswith("__Host-tidegate=")
        ]
    assert len(cookies) == 1
    attributes = {part.strip().lower() for part in cookies[0].split(";")[1:]}
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= attributes
    assert not any(part.startswith("domain") for part in attributes)
    assert "ada" not in cookies[0]


async def test_who_has_not_signed_in_is_told_where(served: Operator) -> None:
    async with served.browser() as browser:
        found = await shown(browser, served)
    assert (found["signed_in"], found["principal"], found["csrf_token"]) == (False, None, None)
    assert found["issuers"] == [{"name": "corp", "login": "/v1/session/login?issuer=corp"}]


NEXT = [
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "/%09/evil.example\t",
    "/\t/evil.example",
    "\\\\evil.example",
    "javascript:alert(1)",
    "evil",
    "",
    "/a\r\nSet-Cookie: x=1",
    "/" + "a" * 2_000,
    "/é",
]


@pytest.mark.parametrize("text", NEXT)
def test_a_browser_is_sent_to_no_other_place(text: str) -> None:
    assert not is_path_here(text)


@given(st.text(st.sampled_from("/\\\t\r\n @:.?#%aé\u2028"), max_size=12))
def test_no_text_leads_a_browser_elsewhere(text: str) -> None:
    """Browsers drop tabs and newlines, and take a backslash for a slash (WHATWG URL, 4.4)."""
    read = "".join(c for c in text if c not in "\t\r\n").strip("\0 ").replace("\\", "/")
    if is_path_here(text):
        assert urlsplit(urljoin("https://ops.example.com", read)).netloc == "ops.example.com"


@pytest.mark.parametrize("text", ["/", "/approvals/appr_1", "/a?b=c#d", "/a//b", "/a?u=https://b"])
def test_a_browser_may_be_sent_to_paths_here(text: str) -> None:
    assert is_path_here(text)


async def test_a_login_that_leads_elsewhere_is_refused(served: Operator) -> None:
    async with served.browser() as browser:
        url = served.url("/v1/session/login").with_query(next="//evil.example")
        async with browser.get(url, allow_redirects=False) as answer:
            assert await reason(answer) == (422, "invalid-request")


async def test_an_answer_is_taken_once(served: Operator) -> None:
    async with served.browser() as browser:
        where = await back(browser, await to_issuer(browser, served))
        kept = {c.key: c.value for c in browser.cookie_jar}
        async with browser.get(where, allow_redirects=False) as answer:
            assert answer.status == 303
    async with ClientSession() as thief:
        header = "; ".join(f"{name}={value}" for name, value in kept.items())
        async with thief.get(where, headers={"Cookie": header}, allow_redirects=False) as answer:
            assert await reason(answer) == (403, "state-used")
    assert served.issuers["corp"].calls["/token"] == 1


async def test_an_answer_in_another_browser_is_refused(served: Operator) -> None:
    """Nobody can sign a stranger's browser in as themselves, nor use a stranger's code."""
    async with served.browser() as one, served.browser() as other:
        where = await back(one, await to_issuer(one, served))
        async with other.get(where, allow_redirects=False) as answer:
            assert await reason(answer) == (403, "state-unknown")
        await to_issuer(other, served)
        async with other.get(where, allow_redirects=False) as answer:
            assert await reason(answer) == (403, "state-unknown")
    assert served.issuers["corp"].calls["/token"] == 0


async def test_an_answer_with_two_states_is_refused(served: Operator) -> None:
    async with served.browser() as browser:
        where = await back(browser, await to_issuer(browser, served))
        twice = URL(f"{where}&state=another", encoded=True)
        async with browser.get(twice, allow_redirects=False) as answer:
            assert await reason(answer) == (403, "state-unknown")


async def test_several_tabs_sign_in_at_once(served: Operator) -> None:
    async with served.browser() as browser:
        tabs = [await to_issuer(browser, served) for _ in range(3)]
        for tab in tabs:
            async with browser.get(await back(browser, tab), allow_redirects=False) as answer:
                assert answer.status == 303


async def test_sign_ins_that_are_never_finished_do_not_fill_the_browser(served: Operator) -> None:
    async with served.browser() as browser:
        for _ in range(20):
            await to_issuer(browser, served)
        assert len(list(browser.cookie_jar)) <= 4


@pytest.mark.parametrize("mixed", ["path", "iss"])
async def test_a_code_of_one_issuer_never_reaches_another(
    monkeypatch: pytest.MonkeyPatch, mixed: str
) -> None:
    """One issuer is an attacker's: it sends the browser on to the other one for a code."""
    async with operator(monkeypatch, "evil", "corp") as at, at.browser() as browser:
        evil, corp = at.issuers["evil"], at.issuers["corp"]
        asked = await to_issuer(browser, at, "?issuer=evil")
        there = URL(corp.url + "/authorize").with_query(dict(asked.query))
        if mixed == "path":
            corp.named = ""  # an issuer that does not know RFC 9207
            evil.document = {"authorization_response_iss_parameter_supported": None}
            honest = asked.query["redirect_uri"].replace("/evil", "/corp")
            there = there.update_query(redirect_uri=honest)
        async with browser.get(await back(browser, there), allow_redirects=False) as answer:
            assert await reason(answer) == (403, "issuer-mixed-up")
        assert (evil.calls["/token"], corp.calls["/token"]) == (0, 0)


async def test_of_several_issuers_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with operator(monkeypatch, "one", "two") as at, at.browser() as browser:
        for query, expected in (
            ("", (422, "invalid-request")),
            ("?issuer=three", (404, "issuer-unknown")),
        ):
            url = at.url(f"/v1/session/login{query}")
            async with browser.get(url, allow_redirects=False) as answer:
                assert await reason(answer) == expected
        people = set[str]()
        for name in ("one", "two"):
            await sign_in(browser, at, f"?issuer={name}")
            people.add((await shown(browser, at))["principal"]["id"])
    assert people == {"person:one:ada", "person:two:ada"}


async def test_a_person_without_a_role_gets_no_session(served: Operator) -> None:
    served.issuers["corp"].person.groups = ["elsewhere"]
    async with served.browser() as browser:
        assert await reason(await sign_in(browser, served)) == (403, "no-role")
        assert not (await shown(browser, served))["signed_in"]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (403, "csrf-token-wrong")),
        ({"X-CSRF-Token": "of another session"}, (403, "csrf-token-wrong")),
        ({"X-CSRF-Token": "é"}, (403, "csrf-token-wrong")),
        ({"X-CSRF-Token": "right", "Origin": "https://evil.example"}, (403, "foreign-origin")),
        ({"X-CSRF-Token": "right", "Origin": "null"}, (403, "foreign-origin")),
        ({"X-CSRF-Token": "right", "Sec-Fetch-Site": "cross-site"}, (403, "foreign-origin")),
        ({"X-CSRF-Token": "right", "Sec-Fetch-Site": "same-site"}, (403, "foreign-origin")),
        ({"X-CSRF-Token": "right"}, (200, "")),
        ({"X-CSRF-Token": "right", "Origin": "own", "Sec-Fetch-Site": "same-origin"}, (200, "")),
    ],
)
async def test_only_a_page_of_tidegate_changes_something(
    served: Operator, headers: dict[str, str], expected: tuple[int, str]
) -> None:
    async with served.browser() as browser:
        await sign_in(browser, served)
        found = await shown(browser, served)
        values = {"right": found["csrf_token"], "own": served.origin}
        sent = {name: values.get(value, value) for name, value in headers.items()}
        async with browser.post(served.url("/v1/jobs/1/cancel"), headers=sent) as answer:
            got = (answer.status, "") if answer.status == 200 else await reason(answer)
    assert got == expected


async def test_another_site_reads_nothing_with_a_persons_cookie(served: Operator) -> None:
    async with served.browser() as browser:
        await sign_in(browser, served)
        headers = {"Sec-Fetch-Site": "same-site"}
        async with browser.get(served.url("/v1/jobs/1"), headers=headers) as answer:
            assert await reason(answer) == (403, "foreign-origin")


OPENED = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}


@pytest.mark.parametrize(
    ("method", "dest", "status"),
    [("GET", "document", 200), ("GET", "iframe", 403), ("POST", "document", 403)],
)
async def test_a_link_from_elsewhere_may_be_followed_and_a_form_not_be_sent(
    served: Operator, method: str, dest: str, status: int
) -> None:
    async with served.browser() as browser:
        answer = await sign_in(browser, served)
        assert answer.headers["Location"] == "/v1/session"
        headers = {"X-CSRF-Token": (await shown(browser, served))["csrf_token"]}
        headers |= {**OPENED, "Sec-Fetch-Dest": dest}
        path = "/v1/jobs/1" if method == "GET" else "/v1/jobs/1/cancel"
        async with browser.request(method, served.url(path), headers=headers) as answer:
            assert answer.status == status


async def test_a_token_goes_before_a_cookie(served: Operator) -> None:
    async with served.browser() as browser:
        await sign_in(browser, served)
        headers = {"Authorization": "Bearer admin"}
        async with browser.post(served.url("/v1/jobs/1/cancel"), headers=headers) as answer:
            assert await answer.json() == {"by": "operator"}
        async with browser.post(
            served.url("/v1/session/logout"), headers=headers, json={}
        ) as answer:
            assert await reason(answer) == (409, "no-session")


async def test_a_stream_that_is_opened_again_by_itself_does_not_prolong_the_session(
    served: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SEEN_AGAIN_MS", 0)
    async with served.browser() as browser:
        await sign_in(browser, served)
        for accept, kept in (("text/event-stream", False), ("*/*", True)):
            async with browser.get(served.url("/v1/jobs/1"), headers={"Accept": accept}) as answer:
                assert ("Set-Cookie" in answer.headers) is kept


async def test_a_cookie_that_was_altered_is_no_session(served: Operator) -> None:
    async with served.browser() as browser:
        await sign_in(browser, served)
        (text,) = [c.value for c in browser.cookie_jar if c.key == "__Host-tidegate"]
    async with ClientSession() as thief:
        for altered in (text[:-2] + "AA", text[:40], "x", text + "A"):
            headers = {"Cookie": f"__Host-tidegate={altered}"}
            async with thief.get(served.url("/v1/jobs/1"), headers=headers) as answer:
                assert await reason(answer) == (401, "session-over")


async def with_token(browser: ClientSession, at: Operator, path: str, body: Any) -> int:
    """The status of a call with the session's CSRF token."""
    headers = {"X-CSRF-Token": (await shown(browser, at))["csrf_token"]}
    async with browser.post(at.url(path), headers=headers, json=body) as answer:
        return answer.status


@pytest.mark.parametrize("before", ["\u2000", "\u00a0", "\u0085", "x=1;\u3000", "other-"])
async def test_a_cookie_that_another_host_may_have_set_is_no_session(
    served: Operator, before: str
) -> None:
    """Browsers hold back a name that begins with `__Host-`, not one that begins with a blank."""
    async with served.browser() as browser:
        await sign_in(browser, served)
        (kept,) = browser.cookie_jar
    async with ClientSession(cookie_jar=DummyCookieJar()) as thief:
        for given, status in (
            (f"a=b; {kept.key}={kept.value}", 200),
            (f"{kept.key}={kept.value}", 200),
            (f"{before}{kept.key}={kept.value}", 401),
        ):
            headers = {"Cookie": given}
            async with thief.get(served.url("/v1/jobs/1"), headers=headers) as answer:
                assert answer.status == status


async def test_an_answer_with_a_sign_in_of_another_host_is_refused(served: Operator) -> None:
    async with served.browser() as thief:
        where = await back(thief, await to_issuer(thief, served))
        (kept,) = thief.cookie_jar
    async with ClientSession(cookie_jar=DummyCookieJar()) as browser:
        headers = {"Cookie": f"\u2000{kept.key}={kept.value}"}
        async with browser.get(where, headers=headers, allow_redirects=False) as answer:
            assert await reason(answer) == (403, "state-unknown")


async def test_who_signs_out_leaves_nothing_to_a_thief_of_the_cookie(served: Operator) -> None:
    async with served.browser() as browser, served.browser() as other, ClientSession() as thief:
        await sign_in(browser, served)
        await sign_in(other, served)
        (text,) = [c.value for c in browser.cookie_jar if c.key == "__Host-tidegate"]
        assert await with_token(browser, served, "/v1/session/logout", {}) == 200
        assert not (await shown(browser, served))["signed_in"]
        assert (await shown(other, served))["signed_in"]
        headers = {"Cookie": f"__Host-tidegate={text}"}
        async with thief.get(served.url("/v1/jobs/1"), headers=headers) as answer:
            assert await reason(answer) == (401, "session-over")


@pytest.mark.parametrize("by", ["the person", "an administrator"])
async def test_all_sessions_of_a_person_end(served: Operator, by: str) -> None:
    async with served.browser() as browser, served.browser() as other, ClientSession() as admin:
        await sign_in(browser, served)
        await sign_in(other, served)
        if by == "the person":
            body = {"everywhere": True}
            assert await with_token(browser, served, "/v1/session/logout", body) == 200
        else:
            headers = {"Authorization": "Bearer admin"}
            end = {"principal": "person:corp:ada", "note": "left the company"}
            async with admin.post(
                served.url("/v1/session/end"), headers=headers, json=end
            ) as answer:
                assert answer.status == 200
        async with other.get(served.url("/v1/jobs/1")) as answer:
            assert await reason(answer) == (401, "session-over")


async def test_ends_that_end_nothing_any_more_are_deleted(
    served: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ("", "session_end", "session:old")
    monkeypatch.setattr(served.state.session_ends, "forgettable", lambda _: [old])
    async with served.browser() as browser:
        await sign_in(browser, served)
        await with_token(browser, served, "/v1/session/logout", {})
    assert served.state.written[-1] == (old, False)


async def test_an_address_that_fails_too_often_waits(served: Operator) -> None:
    async with served.browser() as browser:
        for _ in range(MOST):
            state = (await to_issuer(browser, served)).query["state"]
            where = served.url(f"/v1/session/callback/corp?state={state}&code=y")
            async with browser.get(where) as answer:
                assert answer.status == 403
        for path in ("/v1/session/callback/corp?state=x", "/v1/session/login"):
            async with browser.get(served.url(path), allow_redirects=False) as answer:
                assert await reason(answer) == (429, "sign-in-throttled")
                assert 0 < int(answer.headers["Retry-After"]) <= 60


async def test_answers_to_no_sign_in_keep_nobody_out(served: Operator) -> None:
    """A foreign page has its visitors' browsers send them, as sources of images."""
    async with served.browser() as visitor:
        for _ in range(MOST + 1):
            where = served.url("/v1/session/callback/corp?state=x&code=y")
            async with visitor.get(where) as answer:
                assert await reason(answer) == (403, "state-unknown")
    async with served.browser() as neighbour:
        assert (await sign_in(neighbour, served)).status == 303


async def test_an_issuer_that_is_away_is_answered_with_503(
    served: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    served.issuers["corp"].document = {"issuer": "https://elsewhere.example"}
    async with served.browser() as browser:
        url = served.url("/v1/session/login")
        async with browser.get(url, allow_redirects=False) as answer:
            assert await reason(answer) == (503, "issuer-unavailable")
            assert "elsewhere" not in await answer.text()


async def test_a_stranger_is_not_told_where_the_clients_secret_lies(
    served: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OIDC_SECRET")
    async with served.browser() as browser:
        answer = await sign_in(browser, served)
        assert await reason(answer) == (503, "issuer-unavailable")
        assert "OIDC_SECRET" not in await answer.text()


async def test_no_cache_keeps_what_a_person_was_answered(served: Operator) -> None:
    async with served.browser() as browser:
        await sign_in(browser, served)
        async with browser.get(served.url("/v1/jobs/1")) as answer:
            assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (None, "cannot sign in without TIDEGATE_PUBLIC_URL"),
        ("http://ops.example.com", "is no origin"),
        ("https://ops.example.com/console", "is no origin"),
        ("https://ops.example.com?x", "is no origin"),
        ("https://Ops.example.com", "is no origin"),
        ("ops.example.com", "is no origin"),
        ("https://ops.example.com:443", "is no origin"),
        ("https://a:b@ops.example.com", "is no origin"),
    ],
)
def test_without_a_usable_address_nobody_can_sign_in(url: str | None, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        public_origin(Settings(public_url=url), {"corp": None})


def test_without_issuers_no_address_is_needed() -> None:
    assert public_origin(Settings(), {}) == ""
    assert public_origin(Settings(public_url="https://ops.example.com/"), {"corp": 1}) == (
        "https://ops.example.com"
    )
    for origin in ("https://[2001:db8::1]:8443", "http://127.0.0.1:8080", "http://localhost"):
        assert public_origin(Settings(public_url=origin), {"corp": 1}) == origin


@pytest.mark.parametrize("subject", ["4711", "auth0|a:b/c", "Åsa", "\U00010348", "x" * 255])
def test_whoever_an_issuer_knows_can_be_signed_out(subject: str) -> None:
    found = EndRequest(principal=f"person:corp:{subject}", note="left the company")
    assert found.principal.endswith(subject)


ODD = [b"\xff", b"\xed\xa0\x80", "é".encode(), b"%ED%A0%80", b"%00", b"\x01"]


@pytest.mark.parametrize("odd", ODD)
async def test_odd_cookies_and_states_are_answered(served: Operator, odd: bytes) -> None:
    async with served.browser() as browser:
        state = dict((await to_issuer(browser, served)).query)["state"].encode()
        (kept,) = (f"{c.key}={c.value}".encode() for c in browser.cookie_jar)
    others = b"; ".join(b"__Host-tidegate-signin-%s%d=x" % (odd, n) for n in range(5))
    for path, cookie in (
        (b"/v1/session/login", others),
        (b"/v1/session/login?next=/" + odd, b""),
        (b"/v1/session/login?issuer=" + odd, b""),
        (b"/v1/session/callback/corp?code=x&state=" + state + odd, kept),
        (b"/v1/session/callback/corp?state=" + state + b"&code=" + odd, kept),
        (b"/v1/session/callback/" + odd + b"?state=" + state, kept),
        (b"/v1/session", b"__Host-tidegate=" + odd),
        (b"/v1/jobs/1", odd + b"__Host-tidegate=x; __Host-tidegate=" + odd),
    ):
        assert await status(served, path, cookie) in (200, 303, 400, 401, 403, 404, 422), path


async def status(at: Operator, path: bytes, cookie: bytes) -> int:
    """The status of the answer to a request of these very bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(at.origin).port)
    head = (b"GET " + path + b" HTTP/1.1", b"Host: x", b"Connection: close", b"Cookie: " + cookie)
    writer.write(b"\r\n".join((*head, b"", b"")))
    answer = await reader.read()
    writer.close()
    return int(answer.split(maxsplit=2)[1])
