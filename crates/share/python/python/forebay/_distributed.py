"""How dask.distributed sends arrays: by their places within a machine, as pickle does. Its own way for ndarrays sends the data."""

from __future__ import annotations

import ipaddress
import sys
from typing import Any, Callable, Optional
from urllib.parse import urlsplit

import numpy as np

_MODULE = "distributed.protocol.serialize"
_is_registered = False


def register(kind: type[np.ndarray], has_place: Callable[[Any], bool]) -> None:
    """Lets distributed know how arrays of this kind are sent, once it is imported. Which have a place is told by `has_place`."""
    global _is_registered
    protocol = sys.modules.get(_MODULE)
    # While another thread imports it, it has not all names.
    dispatch = getattr(protocol, "dask_serialize", None)
    if _is_registered or dispatch is None:
        return

    def serialize(array: Any, context: Optional[dict[str, Any]] = None) -> Any:
        if has_place(array) and _stays_here(context):
            # The next way that distributed knows is pickle.
            raise NotImplementedError
        return dispatch.dispatch(np.ndarray)(array.view(np.ndarray))

    dispatch.register(kind, serialize)
    _is_registered = True


def _stays_here(context: Optional[dict[str, Any]]) -> bool:
    """Whether what is sent stays on this machine. Without a recipient it goes to a disk, where a place would not last."""
    ends = [(context or {}).get(end) or {} for end in ("sender", "recipient")]
    return all(_is_loopback(end.get("address")) for end in ends)


def _is_loopback(address: Any) -> bool:
    try:
        return ipaddress.ip_address(urlsplit(str(address)).hostname or "").is_loopback
    except ValueError:
        return False
