"""The trace that a record, a job or a request carries: a W3C `traceparent`, as text.

Any writer of a topic chooses it, so it may be malformed. Some span ids are made of names instead of
being random: the next lease of a job, perhaps of another process, can then link to the one before.
"""

from __future__ import annotations

from hashlib import blake2b

from opentelemetry.trace import INVALID_SPAN_ID, SpanContext, TraceFlags

from streams.serde.headers import continued_trace, is_traceparent

_SPAN_ID, _FLAGS = slice(36, 52), slice(53, 55)
_ODD = frozenset("13579bdf")


def is_sampled(traceparent: str | None) -> bool:
    """Whether a trace is recorded, as its root decided; False if the text is malformed."""
    return traceparent is not None and traceparent[-1:] in _ODD and is_traceparent(traceparent)


def context_of(traceparent: str | None) -> SpanContext | None:
    """The span that a `traceparent` names; None if the text is malformed."""
    if traceparent is None or not is_traceparent(traceparent):
        return None
    trace_id, span_id = int(traceparent[3:35], 16), int(traceparent[_SPAN_ID], 16)
    flags = TraceFlags(int(traceparent[_FLAGS], 16))
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)


def text_of(context: SpanContext) -> str:
    """A span as `traceparent`."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def unsampled(given: str | None) -> str:
    """A trace that nobody records: the sender's if it named one, else a new one."""
    return f"{continued_trace(given)[:53]}00"


def with_span(traceparent: str, span_id: int) -> str:
    """The same trace with another span as the parent."""
    return f"{traceparent[:36]}{span_id:016x}{traceparent[52:]}"


def lease_span(job_id: str, epoch: int) -> int:
    """The span id of a job's lease; a job's epochs grow with each lease."""
    return _id_of("lease", job_id, epoch)


def attempt_span(delivery_id: str, number: int) -> int:
    """The span id of an attempt to deliver; the first attempt has the number 1.

    An attempt that was made and then lost in a crash is made again under the same number and id.
    """
    return _id_of("attempt", delivery_id, number)


def _id_of(kind: str, name: str, number: int) -> int:
    text = f"{kind}\0{name}\0{number}".encode("utf-8", "surrogatepass")
    found = int.from_bytes(blake2b(text, digest_size=8).digest(), "big")
    return found if found != INVALID_SPAN_ID else 1
