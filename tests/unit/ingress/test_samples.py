"""Every scheme has a sample; each is an event that its preset reads, and a new one each time."""

from __future__ import annotations

import uuid

import pytest

from ingress.samples import names, sample
from ingress.schemes import SCHEMES
from ingress.schemes.normalize import UNKNOWN_TYPE, Normalized, Normalizer
from streams.errors import ConfigError

NOW = 1_790_000_000.0
ALL = [(scheme, name) for scheme in SCHEMES for name in names(scheme)]


def normalized(scheme: str, name: str) -> Normalized:
    made = sample(scheme, name, NOW)
    event_id = uuid.uuid4().hex
    return Normalizer(scheme, {}).normalize(made.headers, made.body, None, event_id)


@pytest.mark.parametrize(("scheme", "name"), ALL)
def test_a_sample_is_an_event_with_a_type_a_subject_and_its_own_key(scheme: str, name: str) -> None:
    found, other = normalized(scheme, name), normalized(scheme, name)
    assert found.event_type != UNKNOWN_TYPE
    assert found.subject
    assert found.dedup_key != other.dedup_key
    assert b"{{" not in sample(scheme, name, NOW).body


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_has_a_sample_and_names_them_when_asked_for_another(scheme: str) -> None:
    assert sample(scheme, None, NOW).headers["Content-Type"]
    with pytest.raises(ConfigError, match=names(scheme)[0]):
        sample(scheme, "no.such", NOW)


def test_headers_that_name_an_event_are_sent_along() -> None:
    assert sample("shopify", "orders.create", NOW).headers["X-Shopify-Topic"] == "orders/create"
    assert normalized("github", "push").event_type == "push"
