"""Calls on other machines, through NATS JetStream: the same stages, results, events and records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.remote.caller import RemoteCalls
    from ferrule.remote.wire import Nkey, RemoteError, new_seed, read_key, write_key

__all__ = ["Nkey", "RemoteCalls", "RemoteError", "new_seed", "read_key", "write_key"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "remote.caller": ("RemoteCalls",),
        "remote.wire": ("Nkey", "RemoteError", "new_seed", "read_key", "write_key"),
    },
)
