"""The tables that the read model consists of, what is derived of them, and the lists."""

from __future__ import annotations

from streams.api.resources import modules
from streams.api.rows.derived import Derived
from streams.api.rows.paging import Listing, PagedList
from streams.api.rows.table import Table
from streams.api.rows.tally import Tally

_MODULES = tuple(modules("table"))

TABLES: tuple[Table, ...] = tuple(m.TABLE for m in _MODULES if hasattr(m, "TABLE"))
TALLIES: tuple[Tally, ...] = tuple(m.TALLY for m in _MODULES if hasattr(m, "TALLY"))
DERIVED: tuple[Derived, ...] = tuple(
    each for module in _MODULES for each in getattr(module, "DERIVED", ())
)
STORED: tuple[Table | Tally | Derived, ...] = (*TABLES, *TALLIES, *DERIVED)
"""All tables with rows about tenants."""
LISTINGS: tuple[Listing | PagedList, ...] = tuple(
    m.LISTING for m in _MODULES if hasattr(m, "LISTING")
)
