"""The operator's API: a folder for each resource, and what all of them share.

A resource's folder holds modules of these roles, and each imports those above it alone:

- `table.py` and `*_table.py` declare its rows: columns, list, JSON; further modules read them.
- `*_request.py` are the bodies of its calls, and all other modules its use cases. They know neither
  HTTP nor a terminal.
- `http.py` and `http_*.py` are its calls. Only they import aiohttp.
- `cli.py` and `cli_*.py` are its commands. They call the API over HTTP, as any client does, so they
  import nothing of the other roles.
"""

from typing import Final

STAGE: Final = "operator"
"""The stage whose process serves the API."""
