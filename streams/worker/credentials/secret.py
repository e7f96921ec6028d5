"""The value of a credential as a handler holds it."""

from __future__ import annotations


class Secret(str):
    """The text itself, in every way but one: its `repr` does not show it.

    So it may be put into a header, and a debugger, a failed assertion and the `repr` of a dict do
    not tell it.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret('**********')"
