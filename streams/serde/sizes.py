"""How large records and their parts may be; `topology/sizes.py` holds the topics to it."""

from __future__ import annotations

CHUNK_BYTES = 512 * 1024
"""Of a body, in one record on `payloads`, before it is sealed."""

NONCE_BYTES = 12
"""Before what AES-GCM has sealed (NIST SP 800-38D)."""

MAX_VALUE_BYTES = 256 * 1024
"""Of one step's value, one effect's or handler's result, one progress: each is one record."""

MAX_LEASE_BYTES = 900 * 1024
"""A lease, with the input and all finished steps, has to fit a message of 1 MB."""

VALUE_CAP = 900 * 1024
KEY_CAP = 64 * 1024
"""What a dead letter keeps of its record's value and key."""
