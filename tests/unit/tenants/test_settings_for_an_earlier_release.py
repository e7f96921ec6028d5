"""Settings are JSON in their records: an earlier release refuses a field that it does not know.

An ingress then closes the source, and its vendor gets 401 until the upgrade is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pydantic import BaseModel, ValidationError, create_model
from support.webhooks import VAULT

from streams.serde import schemas
from streams.serde.records import TenantRecord
from streams.tenants.endpoints import EndpointSettings, endpoint_record, endpoint_settings
from streams.tenants.settings import (
    SourceSettings,
    TenantSettings,
    settings_body,
    source_record,
    source_settings,
    tenant_settings,
)

SOURCE = SourceSettings(scheme="stripe", mapping={"subject": "id"})
ENDPOINT = EndpointSettings(url="https://example.com", set_at=5)
TENANT = TenantSettings(display_name="Acme")


@pytest.fixture
def _upgrading() -> Iterator[None]:
    schemas.write_as("0.1.0a1")
    yield
    schemas.write_as(None)


def bodies() -> list[tuple[BaseModel, str]]:
    return [
        (SOURCE, source_record(VAULT, "acme", "shop", SOURCE, [b"secret"], 1).body),
        (ENDPOINT, endpoint_record(VAULT, "acme", "ep", ENDPOINT, (), {}, 1).body),
        (TENANT, settings_body(TENANT)),
    ]


def as_it_was(settings: BaseModel) -> type[BaseModel]:
    """The model of a release that lacks every field that nobody uses here."""
    used: dict[str, Any] = dict.fromkeys(settings.model_dump(exclude_defaults=True), (Any, ...))
    return create_model("Earlier", __config__={"extra": "forbid"}, **used)


@pytest.mark.usefixtures("_upgrading")
def test_a_release_that_lacks_a_field_reads_settings_that_do_not_use_it() -> None:
    for settings, body in bodies():
        as_it_was(settings).model_validate(orjson.loads(body))


@pytest.mark.usefixtures("_upgrading")
def test_what_is_left_out_is_read_as_its_default() -> None:
    source = source_record(VAULT, "acme", "shop", SOURCE, [b"secret"], 1)
    assert source_settings(source) == SOURCE
    assert endpoint_settings(endpoint_record(VAULT, "acme", "ep", ENDPOINT, (), {}, 1)) == ENDPOINT
    tenant = TenantRecord("acme", "tenant", "", False, settings_body(TENANT))
    assert tenant_settings(tenant) == TENANT


def test_otherwise_every_setting_is_kept_as_it_is_now() -> None:
    """A later release may have another default."""
    for settings, body in bodies():
        assert type(settings).model_fields.keys() == orjson.loads(body).keys()
        with pytest.raises(ValidationError):
            as_it_was(settings).model_validate(orjson.loads(body))
