# SPDX-License-Identifier: Apache-2.0
"""The layouts that calls to InStream.redeclare have asked for, until they are in effect."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..errors import InvalidArgument
from ..values.layout import Layout

if TYPE_CHECKING:
    from .stream import Field


class Redeclared:
    """The layouts of the calls that are not in effect yet, oldest first. The library lacks some of them: a call that
    has ended without an answer may hold or not."""

    def __init__(self) -> None:
        self._asked: list[dict[Field, Layout]] = []
        self._seen = 0  # calls that are in effect for the step begun last

    def __bool__(self) -> bool:
        return bool(self._asked)

    def append(self, given: dict[Field, Layout]) -> None:
        """Adds the layouts of a call."""
        self._asked.append(given)

    def place(self, calls: int, fields: list[Field], layout_of: Callable[[Field], Layout], label: int) -> None:
        """Gives fields the layouts that `calls` calls have in the current step.

        :param layout_of: returns the layout that the library has for the current step
        """
        count, self._seen = calls - self._seen, calls
        used = count
        for field in fields if count > 0 else ():
            found = layout_of(field)
            # The newest of the calls that are counted; or, if these do not hold, no call or one that came later.
            order = [*reversed(self._asked[:count]), {field: field.layout}, *self._asked[count:]]
            candidates = [(number, given[field]) for number, given in enumerate(order) if field in given]
            alike = [(number, layout) for number, layout in candidates if _are_alike(layout, found, label)]
            number, layout = (alike or candidates)[0]
            # The library does not know which extent changes, and with keys no part but this rank's.
            field.place(found if not alike and layout.changing is None else layout, label)
            used = max(used, number)
        del self._asked[:used]


def _are_alike(layout: Layout, found: Layout, label: int) -> bool:
    """Returns whether `found`, the layout of a step, is `layout`, in which an extent may change."""
    if layout.changing is not None:
        try:
            layout = Layout(layout.text.replace("*", str(found.shape[layout.changing])))
        except InvalidArgument:  # it has keys, which only a changing extent may have
            return False
    return (found.text, found.local(label)) == (layout.text, layout.local(label))
