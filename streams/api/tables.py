"""The tables that the read model consists of, and the lists that show them."""

from __future__ import annotations

from streams.api.resources import modules
from streams.api.rows.paging import Listing, PagedList
from streams.api.rows.table import Table
from streams.api.rows.tally import Tally

_MODULES = tuple(modules("table"))

TABLES: tuple[Table, ...] = tuple(m.TABLE for m in _MODULES if hasattr(m, "TABLE"))
TALLIES: tuple[Tally, ...] = tuple(m.TALLY for m in _MODULES if hasattr(m, "TALLY"))
STORED: tuple[Table | Tally, ...] = (*TABLES, *TALLIES)
LISTINGS: tuple[Listing | PagedList, ...] = tuple(
    m.LISTING for m in _MODULES if hasattr(m, "LISTING")
)
