"""A rewrapping may be asked for page by page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.access_desk import BOOTSTRAP_TOKEN, Api, serving
from support.callers import TICKET_KEY

from streams.vault.key_encryption import local_vault

NAMES = ("a", "b", "c", "d", "e")


async def rewrap(api: Api, **body: Any) -> tuple[int, dict[str, Any]]:
    return await api.ask(BOOTSTRAP_TOKEN, "POST", "/v1/vault/rewrap", body)


async def test_pages_seal_each_secret_once_and_then_none_is_left(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        await api.ask(BOOTSTRAP_TOKEN, "PUT", "/v1/tenants/acme", {})
        for name in NAMES:
            path = f"/v1/tenants/acme/sources/{name}"
            await api.ask(BOOTSTRAP_TOKEN, "PUT", path, {"scheme": "github", "secret": "hush"})
        api.desk.vault = local_vault(b"n" * 32, TICKET_KEY)
        sealed: list[int] = []
        cursor: dict[str, str] = {}
        while True:
            status, page = await rewrap(api, limit=2, **cursor)
            sealed.append(page["sources"])
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert (status, sealed) == (200, [2, 2, 1])
        _, again = await rewrap(api)
        assert (again["sources"], again["unchanged"], again["next_cursor"]) == (0, 5, None)
        assert (await rewrap(api, cursor="x"))[0] == 422
