"""The names of attributes are those of OpenTelemetry's semantic conventions."""

from __future__ import annotations

from types import ModuleType

import pytest
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.semconv.attributes import (
    error_attributes,
    http_attributes,
    server_attributes,
)

from streams.tracing import conventions


def published(module: ModuleType) -> set[str]:
    return {value for name, value in vars(module).items() if name.isupper()}


@pytest.mark.parametrize("name", [name for name in vars(conventions) if name.isupper()])
def test_a_name_is_a_published_one_or_our_own(name: str) -> None:
    modules = (messaging_attributes, error_attributes, http_attributes, server_attributes)
    value = getattr(conventions, name)
    known = set().union(*map(published, modules))
    links = {conventions.REPLAY_OF, conventions.ATTEMPT_BEFORE, conventions.BATCH}
    assert value in known or value.startswith("tidegate.") or value in links


def test_operations_have_the_published_types() -> None:
    types = messaging_attributes.MessagingOperationTypeValues
    assert conventions.sending("t")[conventions.OPERATION_TYPE] == types.SEND.value
    assert conventions.polling("t", "g", 1)[conventions.OPERATION_TYPE] == types.RECEIVE.value
    assert conventions.processing("t", "g")[conventions.OPERATION_TYPE] == types.PROCESS.value
