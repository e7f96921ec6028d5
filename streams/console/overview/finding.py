"""Where the page of a thing is, by its id."""

from __future__ import annotations

import re
from urllib.parse import quote

_PAGES = {
    "job_": "/console/jobs/",
    "evt_": "/console/events/",
    "dlv_": "/console/deliveries/",
    "apr_": "/console/approvals/",
    "cau_": "/console/causes/",
    "blk_": "/console/bulk/",
    "rpl_": "/console/replays/",
}


_ID = re.compile(r"[a-z]{3}_[A-Za-z0-9_-]+")


def page_of_id(id_: str) -> str | None:
    """Return the path of a thing's page; None for an id of no kind that has one."""
    found = _PAGES.get(id_[:4]) if _ID.fullmatch(id_) else None
    if found is not None:
        return found + quote(id_, safe="")
    if id_.count(":") >= 3:  # a record: stage, topic, partition and offset
        return "/console/dlq/" + quote(id_, safe="")
    return None
