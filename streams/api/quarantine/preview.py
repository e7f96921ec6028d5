"""Tries a mapping on a body in quarantine, before somebody gives it to the source."""

from __future__ import annotations

from pydantic import ValidationError

from streams.api.operator_state import AppState
from streams.api.payloads import refuse_erased_body
from streams.api.quarantine.preview_request import PreviewRequest
from streams.api.quarantine.release import body_of, known_body, source_of
from streams.api.refusal import invalid, invalid_model
from streams.api.rows.json_values import Json
from streams.api.sources.source_request import SourceRequest
from streams.errors import ConfigError, Misfit
from streams.event_admission import Previewed
from streams.http.moments import rfc3339
from streams.tenants.settings import SourceSettings


async def preview(state: AppState, id_: str, wanted: PreviewRequest) -> Json:
    """Return the event that a body would be under a mapping, or why it still does not fit.

    What the mapping finds is a part of the body, so that is an entry of the audit, as a reading.

    Raises:
        Refusal: 404, 409 and 410 as of a release; 422, the mapping is none.
    """
    record = await known_body(state, id_)
    await refuse_erased_body(state, record.tenant_id)
    settings = _tried(await source_of(state, record), wanted)
    body = await body_of(state, record)
    await state.audited(state.entry(id_, record.tenant_id))
    try:
        found = state.admission.preview(record, settings, body)
    except ConfigError as error:
        raise invalid("mapping", str(error)) from None
    except Misfit as misfit:
        return {"fits": False, "reason": misfit.reason, "detail": str(misfit), "event": None}
    return {"fits": True, "reason": None, "detail": None, "event": _event(found)}


def _tried(settings: SourceSettings, wanted: PreviewRequest) -> SourceSettings:
    given = wanted.model_dump(exclude_none=True)
    try:
        tried = SourceRequest.model_validate({**settings.model_dump(), **given})
    except ValidationError as error:
        raise invalid_model(error) from None
    return tried.settings()


def _event(found: Previewed) -> Json:
    return {
        "event_type": found.event_type,
        "subject": found.subject,
        "occurred_at": rfc3339(found.occurred_at),
        "dedup_key": found.dedup_key,
        "attributes": found.attributes,
        "job_id": found.job_id,
    }
