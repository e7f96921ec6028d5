"""The metrics of every process as one page, each sample labelled with its stage and instance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence

from aiohttp import ClientError, ClientSession, ClientTimeout
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from streams.dev.layout import Member
from streams.telemetry import OPENMETRICS, metrics_page

_TIMEOUT = ClientTimeout(total=2.0)


async def merged_metrics(members: Sequence[Member], accept: str | None) -> tuple[bytes, str]:
    """One page, in the format that a scraper's header `accept` asks for, and its content type.

    A silent process has `tidegate_up 0`.
    """
    own = OPENMETRICS if OPENMETRICS in (accept or "") else None
    async with ClientSession(timeout=_TIMEOUT) as session:
        pages = await asyncio.gather(*(_page(session, member, own) for member in members))
    return merge(zip(members, pages, strict=True), accept)


def merge(
    pages: Iterable[tuple[Member, str | None]], accept: str | None = None
) -> tuple[bytes, str]:
    """Merge pages in the format that `accept` asks for; None stands for a silent process."""
    parsed = (
        openmetrics.text_string_to_metric_families
        if OPENMETRICS in (accept or "")
        else text_string_to_metric_families
    )
    up = Metric("tidegate_up", "Whether the process answered this scrape.", "gauge")
    families = {up.name: up}
    for member, page in pages:
        labels = {"stage": member.stage, "instance": member.label}
        up.add_sample(up.name, labels, 0 if page is None else 1)
        for family in parsed(page) if page is not None else ():
            known = families.setdefault(
                family.name, Metric(family.name, family.documentation, family.type)
            )
            for sample in family.samples:
                known.add_sample(
                    sample.name,
                    {**labels, **sample.labels},
                    sample.value,
                    exemplar=sample.exemplar,
                )
    registry = CollectorRegistry()
    registry.register(_Merged(families.values()))
    return metrics_page(accept, registry)


async def sampled(
    members: Sequence[Member], name: str, labels: Mapping[str, str]
) -> list[float | None]:
    """A metric of each process; None where it has no such sample, or does not answer."""
    async with ClientSession(timeout=_TIMEOUT) as session:
        pages = await asyncio.gather(*(_page(session, member) for member in members))
    return [_value(page or "", name, labels) for page in pages]


def _value(page: str, name: str, labels: Mapping[str, str]) -> float | None:
    samples = (s for family in text_string_to_metric_families(page) for s in family.samples)
    return next((s.value for s in samples if (s.name, s.labels) == (name, labels)), None)


async def _page(session: ClientSession, member: Member, accept: str | None = None) -> str | None:
    headers = {"Accept": accept} if accept else None
    try:
        async with session.get(f"{member.url}/metrics", headers=headers) as response:
            return await response.text() if response.status == 200 else None
    except (ClientError, TimeoutError, OSError):
        return None


class _Merged(Collector):
    """A collector of families that were parsed before."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)
