"""The front of Restate: its ingress drops redeliveries by their idempotency key, and says so."""

from __future__ import annotations

import os
import sys

from aiohttp import ClientSession, ClientTimeout

from peers.front import Event, serve

_UNFINISHED = "SELECT idempotency_key FROM sys_invocation_status WHERE status <> 'completed'"
_TIMEOUT = ClientTimeout(total=5)
"""As the vendor has it: what nobody waits for any more must not burden a server that starts."""
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}


class Front:
    async def open(self) -> None:
        self._ingress, self._admin = (
            ClientSession(os.environ[name], timeout=_TIMEOUT, raise_for_status=True)
            for name in ("PEERS_RESTATE_INGRESS", "PEERS_RESTATE_ADMIN")
        )

    async def take(self, event: Event) -> bool:
        headers, path = _JSON, f"/Case/{event.subject}/run/send"
        # The subject itself is the key of a workflow, which runs once.
        if event.type != "wait.made":
            headers = {**_JSON, "Idempotency-Key": f"{event.tenant}:{event.id}"}
            path = f"/Jobs/{event.work}/send"
        if event.type == "wait.answered":
            path = f"/Case/{event.subject}/answered/send"
        async with self._ingress.post(path, data=event.body, headers=headers) as answer:
            return bool((await answer.json())["status"] == "Accepted")

    async def unfinished(self) -> list[str]:
        asked = {"query": _UNFINISHED}
        async with self._admin.post("/query", json=asked, headers=_JSON) as answer:
            rows = (await answer.json())["rows"]
        return [row.get("idempotency_key") or "" for row in rows]


if __name__ == "__main__":
    serve(Front(), int(sys.argv[1]))
