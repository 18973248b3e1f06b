# SPDX-License-Identifier: Apache-2.0
"""Tensors of a model by name, their types, and their memory as arrays."""
from __future__ import annotations

import re
from typing import Any, Dict, Mapping, NoReturn, Optional, Tuple, Union

import numpy as np
import torch

import tremula

from .layouts import local_of

ModelOrState = Union[torch.nn.Module, Mapping[str, Any]]

_NAMES: Dict[torch.dtype, str] = {
    torch.int8: "int8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "uint8",
    torch.float16: "float16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.complex64: "c64", torch.complex128: "c128", torch.bool: "bool",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def type_name(dtype: torch.dtype) -> str:
    """Returns the name of Tremula's type for a dtype of torch.

    >>> type_name(torch.bfloat16)
    'bf16'
    """
    if dtype not in _NAMES:
        raise ValueError(f"expected a tensor of one of {', '.join(map(str, _NAMES))}, found {dtype}")
    return _NAMES[dtype]


def dtype_named(name: Union[str, torch.dtype]) -> torch.dtype:
    """Returns the dtype of torch for a name that tremula.element_type takes; returns a dtype of torch unchanged.

    >>> dtype_named("bf16")
    torch.bfloat16
    """
    if isinstance(name, torch.dtype):
        type_name(name)
        return name
    kind = tremula.element_type(name).name
    if kind not in _DTYPES:
        raise ValueError(f"expected a type that torch has ({', '.join(_DTYPES)}), found '{name}'")
    return _DTYPES[kind]


def tensors_of(model: ModelOrState) -> Dict[str, Any]:
    """Returns the tensors of a module (parameters and persistent buffers, in the order of its state_dict) or of a
    mapping. The tensors of a module are the parameters themselves, not copies. Tied weights appear under each of their
    names. Raises ValueError if a mapping contains anything other than tensors."""
    if isinstance(model, torch.nn.Module):
        state: Mapping[str, Any] = model.state_dict(keep_vars=True)
        return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}
    for name, value in model.items():
        if not isinstance(value, torch.Tensor) and not hasattr(value, "placements"):
            raise ValueError(f"'{name}': expected a tensor, found {type(value).__name__}: leave it out, and give "
                             "values that are not tensors as attributes of the version")
    return dict(model)


def global_shape(tensor: Any) -> Tuple[int, ...]:
    """Returns the shape of the whole tensor, however it is sharded; (1,) for a tensor without dimensions."""
    if callable(getattr(tensor, "metadata", None)):
        return tuple(tensor.metadata().size)
    return tuple(int(n) for n in tensor.shape) or (1,)


def refuse_shape(name: str, whole: Tuple[int, ...], written: Tuple[int, ...]) -> NoReturn:
    """Raises ValueError for a tensor whose shape `whole` differs from the writer's, and says how to read a part."""
    is_part = len(whole) == len(written) and all(mine <= theirs for mine, theirs in zip(whole, written))
    cure = "give the reader's tensor the shape of the writer's"
    if is_part:
        cure = f"if the writer's is padded, describe the part with fused={{'{name}': [Piece('{name}', at, extents)]}}"
    raise ValueError(f"tensor '{name}': expected the shape of the writer, {written}, found {whole}: {cure}")


def array_of(tensor: torch.Tensor) -> "np.ndarray[Any, Any]":
    """Returns the memory of a dense CPU tensor as an array, bf16 as uint16, without copying. A tensor without
    dimensions becomes an array of one element."""
    tensor = tensor.detach()
    if tensor.dim() == 0:
        tensor = tensor.view(1)
    if tensor.dtype is torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy()).view(np.uint16)
    return np.asarray(tensor.numpy())


def tensor_of(array: "np.ndarray[Any, Any]", dtype: torch.dtype) -> torch.Tensor:
    """Reverses array_of: returns a tensor in the memory of an array."""
    if dtype is torch.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def check_local(name: str, tensor: Any, layout: "tremula.Layout", rank: int) -> torch.Tensor:
    """Returns this rank's part of a tensor. Raises ValueError if the part does not match the layout."""
    local: torch.Tensor = local_of(tensor)
    said = layout.local(rank)
    if not said.is_whole or said.order != "C":
        raise ValueError(f"tensor '{name}': expected a layout without ghost cells and padding, stored by rows, found "
                         f"'{layout.text}'")
    found = tuple(local.shape) or (1,)
    is_list = " lists=" in layout.text
    if local.numel() != said.allocated or not is_list and local.numel() and found != said.extents:
        raise ValueError(f"tensor '{name}': expected a part of shape {said.extents} on rank {rank}, as its layout "
                         f"'{layout.text}' says, found {found}")
    return local


def placed_array(tensor: torch.Tensor, layout: "tremula.Layout", rank: int) -> "np.ndarray[Any, Any]":
    """Returns the memory of a rank's part in the shape that its layout gives it, which is one row if ranks list what
    they own. An empty tensor may have any shape."""
    array = array_of(tensor)
    return array.reshape(layout.local(rank).extents) if " lists=" in layout.text or array.size == 0 else array


def refuse_flat(name: str, tensor: Any, ranks: int) -> None:
    """Raises ValueError for a flat parameter of FSDP1 if there are several ranks: each has a shard of it that does not
    record its position."""
    if ranks == 1:
        return
    if type(tensor).__name__ == "FlatParameter" or re.fullmatch(r"_?flat_param(_\d+)?", name.rpartition(".")[2]):
        raise ValueError(f"tensor '{name}': expected a parameter of the model, found a flat parameter of FSDP1, of which "
                         "each rank has a shard: give the state_dict that the model has inside "
                         "FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT), or "
                         "say with layouts= which part each rank has")


def carrier(tensor: Any) -> Any:
    """Returns the tensor that holds the local memory: the tensor itself, the local tensor of a DTensor, or the only
    shard."""
    if hasattr(tensor, "local_shards"):
        return tensor.local_shards()[0].tensor
    local: Optional[torch.Tensor] = getattr(tensor, "_local_tensor", None)
    return tensor if local is None else local
