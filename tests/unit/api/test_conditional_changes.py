"""A change with `If-Match` is made only if its thing is as it was seen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient
from support.access_desk import BOOTSTRAP_TOKEN, Api, serving

from streams.api.serving.call import call_of
from streams.api.serving.routes import routes
from streams.delivery.egress.policy import EgressPolicy

TENANT = "/v1/tenants/acme"
BODIES: dict[str, dict[str, Any]] = {
    TENANT: {"display_name": "Acme"},
    f"{TENANT}/sources/shop": {"scheme": "github", "secret": "hush"},
    f"{TENANT}/endpoints/crm": {"url": "https://93.184.216.34/hooks"},
}
THINGS = sorted(BODIES)


class Caller:
    """Who holds the bootstrap token."""

    def __init__(self, client: TestClient[Any, Any]) -> None:
        self._client = client

    async def __call__(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> ClientResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        token = {"Authorization": f"Bearer {BOOTSTRAP_TOKEN}"}
        return await self._client.request(method, path, json=body, headers=token | named)

    async def tag(self, path: str) -> str:
        answer = await self("GET", path)
        return answer.headers["ETag"]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving(tmp_path) as made:
        made.desk.egress = EgressPolicy()  # type: ignore[attr-defined]
        yield made


@pytest.fixture
async def call(api: Api) -> Caller:
    made = Caller(api.client)
    for path, body in sorted(BODIES.items()):
        assert (await made("PUT", path, body)).status == 200
    return made


@pytest.mark.parametrize("path", THINGS)
async def test_a_change_that_saw_the_present_state_is_made_and_gives_another_tag(
    call: Caller, path: str
) -> None:
    seen = await call.tag(path)
    assert await call.tag(path) == seen, "a look changes nothing"
    assert (await call("PUT", path, BODIES[path], If_Match=seen)).status == 200
    assert await call.tag(path) != seen


@pytest.mark.parametrize("path", THINGS)
async def test_a_change_answers_the_tag_under_which_the_next_one_is_made(
    call: Caller, path: str
) -> None:
    seen = (await call("PUT", path, BODIES[path])).headers["ETag"]
    answer = await call("PUT", path, BODIES[path], If_Match=seen)
    assert (answer.status, answer.headers["ETag"]) == (200, await call.tag(path))
    seen = answer.headers["ETag"]
    if path != TENANT:
        secret = {"secret": "a newer one"} if "sources" in path else {}
        rotated = await call("POST", f"{path}/rotate", secret, If_Match=seen)
        assert (rotated.status, rotated.headers["ETag"]) == (200, await call.tag(path))
        seen = rotated.headers["ETag"]
    assert (await call("DELETE", path, If_Match=seen)).status == 200


@pytest.mark.parametrize("path", THINGS)
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_change_that_saw_an_older_state_is_refused_with_the_present_tag(
    call: Caller, path: str, method: str
) -> None:
    seen = await call.tag(path)
    assert (await call("PUT", path, BODIES[path])).status == 200, "without the header, as ever"
    present, before = await call.tag(path), await (await call("GET", path)).json()
    refused = await call(method, path, BODIES[path] if method == "PUT" else None, If_Match=seen)
    told = await refused.json()
    assert (refused.status, told["type"]) == (412, "urn:tidegate:problem:precondition-failed")
    assert (told["etag"], told["remedy"]) == (present, {"method": "GET", "path": path})
    assert await (await call("GET", path)).json() == before
    assert (await call(method, path, BODIES[path], If_Match=f'"x", {present}')).status == 200


@pytest.mark.parametrize("path", THINGS)
async def test_if_none_match_creates_only(call: Caller, path: str) -> None:
    there = await call("PUT", path, BODIES[path], If_None_Match="*")
    assert (there.status, (await there.json())["etag"]) == (412, await call.tag(path))
    new = path.replace("acme", "beta") if path == TENANT else f"{path}-2"
    for condition in ({"If_Match": '"any"'}, {"If_Match": "*"}):
        refused = await call("PUT", new, BODIES[path], **condition)
        assert (refused.status, (await refused.json())["etag"]) == (412, None)
    assert (await call("GET", new)).status == 404
    assert (await call("PUT", new, BODIES[path], If_None_Match="*")).status == 200
    assert (await call("PUT", new, BODIES[path], If_None_Match="*")).status == 412


async def test_an_endpoint_that_is_removed_is_not_there(call: Caller) -> None:
    path = f"{TENANT}/endpoints/crm"
    assert (await call("DELETE", path, If_Match=await call.tag(path))).status == 200
    assert (await call("PUT", path, BODIES[path], If_None_Match="*")).status == 200


async def test_a_change_that_saw_an_older_state_makes_nothing_else_either(call: Caller) -> None:
    """A source with a callback's URL gets the endpoint `callbacks`."""
    path = f"{TENANT}/sources/shop"
    wanted = {"scheme": "github", "callback_url": "https://93.184.216.34/ends"}
    assert (await call("PUT", path, wanted, If_Match='"other"')).status == 412
    assert (await call("GET", f"{TENANT}/endpoints/callbacks")).status == 404
    seen = await call.tag(path)
    assert (await call("PUT", path, wanted, If_Match=seen)).status == 200
    assert (await call("GET", f"{TENANT}/endpoints/callbacks")).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"If_Match": "bare"},
        {"If_Match": ""},
        {"If_Match": '"a" "b"'},
        {"If_None_Match": '"a"'},
        {"If_None_Match": "*, *"},
    ],
)
async def test_a_header_that_names_no_tag_is_refused(call: Caller, headers: dict[str, str]) -> None:
    assert (await call("PUT", TENANT, {}, **headers)).status == 422


async def test_a_weak_tag_never_matches(call: Caller) -> None:
    weak = f"W/{await call.tag(TENANT)}"
    assert (await call("PUT", TENANT, {}, If_Match=weak)).status == 412


def test_all_settings_of_a_tenant_are_tagged() -> None:
    """Each that one can look at by its own path, and change there."""
    calls = [found for each in routes() if (found := call_of(getattr(each, "handler", None)))]
    changed = {call.path for call in calls if call.method == "PUT"}
    assert changed
    untagged = [c for c in calls if c.path in changed and c.tagged is None]
    assert not untagged
