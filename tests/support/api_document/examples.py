"""An example of each body, by the name of the model that validates it."""

from __future__ import annotations

from typing import Any

_SINCE = "2026-11-21T09:00:00Z"

EXAMPLES: dict[str, dict[str, Any]] = {
    "ApproveRequest": {"note": "seen with the customer", "edit": {"amount": 4_200}},
    "BatchRequest": {
        "events": [
            {"source": "shop", "event_type": "order.paid", "dedup_key": "o-17", "payload": {}}
        ]
    },
    "BulkMoveRequest": {"type": "draft_reply", "pool": "gpu", "note": "the pool is free again"},
    "BulkReplayRequest": {"incident_note": "the mail server is back", "type": "draft_reply"},
    "BulkRequest": {
        "action": "jobs.cancel",
        "filter": {"tenant_id": "acme", "type": "draft_reply"},
        "note": "the orders were withdrawn",
        "ramp": [1, 10],
        "dry_run": True,
    },
    "CancelBulkRequest": {"note": "the wrong orders"},
    "CancelRequest": {"reason": "the order was withdrawn"},
    "CauseRequest": {"note": "the mail server is back"},
    "DecisionRequest": {"note": "above the limit"},
    "DiscardRequest": {"note": "the customer was called"},
    "DoneRequest": {"note": "refunded by hand, re_81"},
    "EditRequest": {"input": {"amount": 20}},
    "EndRequest": {"principal": "person:company:248289761001", "note": "has left"},
    "EndpointRequest": {"url": "https://crm.example.com/hooks", "events": ["order.*"]},
    "EndpointRotation": {"overlap_seconds": 3_600},
    "ErasureRequest": {"note": "the contract has ended"},
    "IgnoreRequest": {"note": "the vendor mends it", "until": "2026-11-22T09:00:00Z"},
    "JobRequest": {"type": "divide", "input": {"a": 6, "b": 3}},
    "ManualRequest": {"note": "refund it in the bank's own pages", "assignee": "ann"},
    "MoveRequest": {"pool": "gpu", "note": "it needs more memory"},
    "NoteRequest": {"note": "while the shop is closed"},
    "PauseRequest": {"scope": "tool", "value": "mail", "reason": "the mail server is away"},
    "RecoverRequest": {"since": _SINCE, "status": "parked", "dry_run": True},
    "ReleaseRequest": {"note": "the mapping is mended"},
    "ReplayEventsRequest": {
        "tenant_id": "acme",
        "event_type": "order.*",
        "since": _SINCE,
        "job": "index_order",
        "note": "a new index",
    },
    "ReplayRequest": {"incident_note": "the mail server is back"},
    "ResumeRequest": {"scope": "tool", "value": "mail"},
    "RotateRequest": {"secret": "a new secret", "overlap_seconds": 3_600},
    "RouteRequest": {"source": "shop", "dedup_key": "o-17", "note": "a route exists now"},
    "SampleRequest": {"sample": {"order": "o-17"}},
    "ScheduleRequest": {"id": "nightly", "job": "digest", "cron": "0 3 * * *", "tz": "UTC"},
    "SettleRequest": {"status": "done", "result": {"id": "m-1"}, "note": "seen in the outbox"},
    "SignRequest": {"url": "https://hooks.example.com/v1/hooks/acme/shop", "body_base64": "e30="},
    "SourceRequest": {
        "scheme": "github",
        "secret": "a secret",
        "mapping": {"event_type": "type", "dedup_key": "id"},
        "dedup_by": "key",
    },
    "StepsRequest": {"keep": ["fetch"], "drop": ["draft"], "note": "the draft is made anew"},
    "TenantSettings": {"display_name": "Acme", "rate": {"count": 100, "seconds": 1}},
    "TicketRequest": {"jobs": ["job_a"]},
    "TokenRequest": {"name": "console", "role": "viewer", "tenants": ["acme"], "expires_days": 30},
}
