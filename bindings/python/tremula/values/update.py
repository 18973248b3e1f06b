# SPDX-License-Identifier: Apache-2.0
"""How an array is changed on its way:  to = alpha * op(from) + beta * to."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import _c
from ..errors import InvalidArgument
from .layout import Layout
from .local import checked_layout, int64s, ints
from .dtypes import ElementType, element_type


@dataclass(frozen=True)
class Change:
    """The parts of an update other than layouts and types.

    axes       dimension d of `to` is dimension axes[d] of `from`; (1, 0) transposes a matrix; None: the same order
    extents    extents of the part that is written, in the dimensions of `to`; None: the whole array
    from_origin, to_origin   0-based global indices at which that part begins; None: 0
    """

    alpha: complex = 1
    beta: complex = 0
    conjugate: bool = False
    axes: Sequence[int] | None = None
    extents: Sequence[int] | None = None
    from_origin: Sequence[int] | None = None
    to_origin: Sequence[int] | None = None

    @property
    def is_none(self) -> bool:
        """Whether this is a plain copy."""
        options = (self.axes, self.extents, self.from_origin, self.to_origin)  # sequences, possibly arrays
        return self.alpha == 1 and self.beta == 0 and not self.conjugate and all(o is None for o in options)

    def whole(self, produced: Layout) -> Layout:
        """Returns a layout on one rank for everything that is received of a field with the layout `produced`: of shape
        `extents` if they are given, else of the shape of the whole array, in the order of `axes`."""
        shape: Sequence[int | str] = produced._key("shape").split("x")
        if self.extents is not None:
            shape = self.extents
        elif self.axes is not None and sorted(axes := list(ints(self.axes, "axes"))) == list(range(len(shape))):
            shape = [shape[axis] for axis in axes]
        return Layout.block(shape, (1,) * len(shape))

    def struct(
        self, from_: Layout | None, to: Layout, from_type: ElementType, to_type: ElementType
    ) -> tuple[_c.Update, list[Any]]:
        """Returns the struct for the C interface, and the objects that must live as long as it does."""
        alpha, beta = complex(self.alpha), complex(self.beta)
        update = _c.Update(
            from_=from_._handle if from_ is not None else None,
            to=to._handle,
            from_type=from_type.code,
            to_type=to_type.code,
            alpha=(alpha.real, alpha.imag),
            beta=(beta.real, beta.imag),
            conjugate=int(self.conjugate),
        )
        held: list[Any] = [from_, to]
        for name in ("axes", "extents", "from_origin", "to_origin"):
            values = getattr(self, name)
            if values is None:
                continue
            numbers = ints(values, name) if name == "axes" else int64s(values, name)
            if len(numbers) != to.dimensions:
                raise InvalidArgument(
                    f"{name}: expected one number for each of the {to.dimensions} dimensions, found {len(numbers)}"
                )
            setattr(update, name, numbers)
            held.append(numbers)
        return update, held


class Update:
    """One array of a redistribution inside one job, or of a relabeling.

    :param from_, to: its layouts; dtype: type of the elements in both; to_dtype: their type in `to`, if it differs
    :param change: keywords of Change, e.g. alpha=0.5, axes=(1, 0)
    """

    def __init__(self, from_: Layout, to: Layout, dtype: Any = "f64", to_dtype: Any = None, **change: Any) -> None:
        self.from_, self.to = checked_layout(from_, "update, from"), checked_layout(to, "update, to")
        self.from_type = element_type(dtype)
        self.to_type = self.from_type if to_dtype is None else element_type(to_dtype)
        self.change = Change(**change)

    def __repr__(self) -> str:
        return f"<tremula.Update of {self.from_type.name} from {self.from_.text!r} to {self.to.text!r}>"


def structs_of(updates: Sequence[Update]) -> tuple[Any, list[Any]]:
    """Returns an array of tremula_update, and the objects that must live as long as it does."""
    made = [u.change.struct(u.from_, u.to, u.from_type, u.to_type) for u in updates]
    return (_c.Update * len(made))(*(struct for struct, _ in made)), [held for _, held in made]
