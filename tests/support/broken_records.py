"""Records whose bytes cannot be decoded."""

from __future__ import annotations

import struct

from streams.serde.codec import ENVELOPE

BROKEN_EVENT = struct.pack(">bI", 0, ENVELOPE.schema.id) + b"?"
"""It is framed as an envelope, and its datum is broken."""
