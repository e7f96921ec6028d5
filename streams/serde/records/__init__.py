"""The values that travel on topics, one frozen dataclass for each Avro record.

Field names and meanings are documented in `schemas/*.avsc`; times are integer milliseconds since
the epoch in UTC, JSON travels as text. `tests/unit/serde/test_schemas.py` compares the two. Import
them from here; the modules are for those who look one up.
"""

from __future__ import annotations

from streams.serde.records.approvals import *  # noqa: F403  each class of these modules is a record
from streams.serde.records.audit import *  # noqa: F403
from streams.serde.records.commands import *  # noqa: F403
from streams.serde.records.events import *  # noqa: F403
from streams.serde.records.job_types import *  # noqa: F403
from streams.serde.records.jobs import *  # noqa: F403
from streams.serde.records.limits import *  # noqa: F403
from streams.serde.records.operator_commands import *  # noqa: F403
from streams.serde.records.schedules import *  # noqa: F403
from streams.serde.records.tenants import *  # noqa: F403
from streams.serde.records.worker_commands import *  # noqa: F403
from streams.serde.records.workers import *  # noqa: F403
from streams.serde.records.workflows import *  # noqa: F403
