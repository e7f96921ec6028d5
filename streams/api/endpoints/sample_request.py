"""Body of a test of an endpoint."""

from __future__ import annotations

from streams.api.fields import Body, Writable, stored_json

MAX_SAMPLE_BYTES = 64 * 1024


class SampleRequest(Body):
    """Body of a test; `sample` is any JSON that the request carries as its data."""

    sample: Writable = None

    def stored(self) -> str | None:
        """Return the sample as JSON text.

        Raises:
            Refusal: 413, it is too large.
        """
        if self.sample is None:
            return None
        return stored_json(self.sample, "sample", MAX_SAMPLE_BYTES)
