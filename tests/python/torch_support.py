# SPDX-License-Identifier: Apache-2.0
"""What the tests of tremula.torch share."""
import dataclasses
import importlib
import socket


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _importable():
    """torch 1.13 has a dataclass whose default is another one, which Python 3.11 refuses unless it is hashable."""
    plain = dataclasses.dataclass

    def hashable(cls=None, **options):
        if cls is None:
            return lambda found: hashable(found, **options)
        return plain(cls, **({**options, "unsafe_hash": True} if cls.__name__ == "TensorProperties" else options))

    dataclasses.dataclass = hashable
    try:
        importlib.import_module("torch.distributed._shard.sharded_tensor")
    finally:
        dataclasses.dataclass = plain


def sharded_tensor():
    """torch.distributed._shard.sharded_tensor"""
    _importable()
    return importlib.import_module("torch.distributed._shard.sharded_tensor")


def sharding_spec():
    """torch.distributed._shard.sharding_spec, with ShardMetadata"""
    _importable()
    found = importlib.import_module("torch.distributed._shard.sharding_spec")
    found.ShardMetadata = importlib.import_module("torch.distributed._shard.metadata").ShardMetadata
    return found
