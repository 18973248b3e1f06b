# SPDX-License-Identifier: Apache-2.0
"""A step as an xarray.Dataset. Only this module needs xarray; the rest of the package works without it."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from ..values.attributes import Attributes
    from .in_step import InStep
    from .stream import Field


def dataset(step: InStep, fields: Any = None) -> Any:
    """Gets this rank's part of the fields and returns it with the attributes of fields, stream and step.

    A field's attribute "dims" (texts, one for each dimension) names its dimensions. Without it, they are named after
    the field's one-dimensional coordinates with matching extents, in order, else "<field>_0", ...; the dimension of a
    one-dimensional field without coordinates has the field's name. Fields that its attribute "coordinates" names (one
    text with names separated by spaces, or several texts) become coordinates; they must be declared with layouts whose
    parts have the same extents.

    :param fields: fields to get, as declared or by name; None: all
    :raises Unsupported: xarray is not installed
    """
    try:
        import xarray
    except ImportError as error:
        raise Unsupported(f"dataset: expected xarray, found none ({error}): install python3-xarray") from None
    stream = step._stream
    wanted = stream.fields if fields is None else [stream._number_of(f) for f in fields]
    attributes = {f.name: stream.attributes_of(f) for f in stream.fields}
    coordinates: list[str] = []
    for field in wanted:
        for name in _names(attributes[field.name], "coordinates"):
            if name not in coordinates:
                coordinates.append(name)
    declared = {f.name: f for f in stream.fields}
    for name in coordinates:
        if name not in declared:
            raise InvalidArgument(
                f"stream '{stream.name}': expected the coordinate '{name}' to be declared as a field, found "
                f"{', '.join(declared)}"
            )
    got = {f.name: step[f] for f in [*wanted, *(declared[n] for n in coordinates)]}
    variables = {}
    for name, array in got.items():
        dims = _dims(declared[name], array, attributes[name], got)
        variables[name] = (dims, array, dict(attributes[name]))
    metadata: dict[str, Any] = {**stream.attributes, **step.attributes, "step": step.number}
    if "time_unit" in metadata:
        metadata["time"] = step.time
    return xarray.Dataset(
        {n: v for n, v in variables.items() if n not in coordinates},
        {n: v for n, v in variables.items() if n in coordinates},
        metadata,
    )


def _names(attributes: Attributes, name: str) -> list[str]:
    texts = attributes.all(name) if name in attributes else []
    return [word for text in texts for word in str(text).split()]


def _dims(
    field: Field, array: np.ndarray[Any, Any], attributes: Attributes, got: dict[str, np.ndarray[Any, Any]]
) -> list[str]:
    dims = _names(attributes, "dims")
    if dims:
        if len(dims) != array.ndim:
            raise InvalidArgument(
                f"field '{field.name}': expected an attribute 'dims' with a name for each of {array.ndim} dimensions, "
                f"found {dims}"
            )
        return dims
    if array.ndim == 1 and not _names(attributes, "coordinates"):
        return [field.name]
    free = [name for name in _names(attributes, "coordinates") if got[name].ndim == 1]
    for d, extent in enumerate(array.shape):
        fitting = next((name for name in free if got[name].shape == (extent,)), None)
        if fitting is not None:
            free.remove(fitting)
        dims.append(fitting or f"{field.name}_{d}")
    return dims
