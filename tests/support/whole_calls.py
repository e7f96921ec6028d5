"""What a test asks of a whole pipeline over HTTP: a source, signed deliveries, results of jobs."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from support.conditions import PATIENCE_SECONDS, eventually

TOKEN = "a-token-of-the-test"


@dataclass(frozen=True)
class Calls:
    """`operator` and `ingress` are their URLs."""

    operator: str
    ingress: str

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A call of the operator's API."""
        known = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        return _sent(self.operator + path, method, json.dumps(body).encode(), known | headers)

    def make_source(self) -> None:
        """Tenant `acme` with the source `shop`, whose events have a type and an id."""
        self.ask("PUT", "/v1/tenants/acme", {"display_name": "Acme"})
        source = {"scheme": "github", "secret": "a secret", "mapping": {"event_type": "type"}}
        self.ask("PUT", "/v1/tenants/acme/sources/shop", source)

    def deliver(self, number: int) -> str:
        """Deliver a signed event until the ingress takes it; returns its job."""
        body = json.dumps({"id": number, "type": "ticket.created"}).encode()
        signed = self.ask(
            "POST",
            "/v1/tenants/acme/sources/shop/sign",
            {
                "url": "http://ingress/v1/hooks/acme/shop",
                "headers": {},
                "body_base64": base64.b64encode(body).decode(),
            },
        )

        def taken() -> Any:
            try:
                url = f"{self.ingress}/v1/hooks/acme/shop"
                return _sent(url, "POST", body, dict(signed["headers"]))
            except urllib.error.HTTPError:
                return None

        return str(eventually(taken, what=f"event {number} is accepted")["job_id"])

    def result(self, job_id: str) -> Any:
        """The result of a job, once it has succeeded."""

        def done() -> Any:
            jobs = self.ask("GET", "/v1/jobs?status=succeeded&limit=200")["jobs"]
            return next((job for job in jobs if job["job_id"] == job_id), None)

        return eventually(done, what=f"{job_id} succeeded")["result"]


def _sent(url: str, method: str, body: bytes, headers: dict[str, str]) -> Any:
    data = None if method == "GET" else body
    request = urllib.request.Request(url, method=method, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return json.loads(answer.read())
