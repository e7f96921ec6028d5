"""The operator's API as the demo uses it: tenants, sources, endpoints, one job, lists of jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from streams.demo.world.scenario import SOURCE
from streams.errors import TidegateError

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Listed:
    """A job as `GET /v1/jobs?tenant_id=...` shows it, with the full text of the answer."""

    asked_for: str
    tenant_id: str
    job_id: str
    status: str
    text: str


class OperatorApi:
    """A client with the admin token.

    Raises:
        TidegateError: the answer is no success; it names call, status and detail.
    """

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._session = aiohttp.ClientSession(url, headers=headers)

    async def close(self) -> None:
        await self._session.close()

    async def create_tenant(self, tenant_id: str, secret: bytes) -> None:
        """Create a tenant with one source that signs as Zendesk does."""
        await self._call("PUT", f"/v1/tenants/{tenant_id}", {})
        source = {"scheme": "zendesk", "secret": secret.decode()}
        await self._call("PUT", f"/v1/tenants/{tenant_id}/sources/{SOURCE}", source)

    async def console_path(self) -> str:
        """Return a path that opens the console once, with the rights of this client."""
        return str(orjson.loads(await self._call("POST", "/v1/session/links", {}))["path"])

    async def set_endpoint(self, tenant_id: str, endpoint_id: str, body: dict[str, Any]) -> None:
        """Create or replace an outgoing endpoint."""
        await self._call("PUT", f"/v1/tenants/{tenant_id}/endpoints/{endpoint_id}", body)

    async def submit(self, tenant_id: str, body: dict[str, Any], key: str) -> dict[str, Any]:
        """Submit a job directly; returns the job."""
        answer: dict[str, Any] = orjson.loads(
            await self._call("POST", f"/v1/tenants/{tenant_id}/jobs", body, key)
        )
        return answer

    async def list_jobs(self, tenant_id: str) -> list[Listed]:
        """Every job that the API shows for a tenant."""
        listed: list[Listed] = []
        cursor = ""
        while True:
            query = f"?tenant_id={tenant_id}&limit={_PAGE}" + (cursor and f"&cursor={cursor}")
            page = orjson.loads(await self._call("GET", f"/v1/jobs{query}"))
            listed += [
                Listed(
                    tenant_id, j["tenant_id"], j["job_id"], j["status"], orjson.dumps(j).decode()
                )
                for j in page["jobs"]
            ]
            cursor = page.get("next_cursor") or ""
            if not cursor:
                return listed

    async def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None
    ) -> bytes:
        headers = {} if key is None else {"Idempotency-Key": key}
        async with self._session.request(method, path, json=body, headers=headers) as response:
            content = await response.read()
            if response.status >= 300:
                raise TidegateError(
                    f"{method} {path} answered {response.status}: {content[:300].decode()}"
                )
            return content
