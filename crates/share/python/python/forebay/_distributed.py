"""How dask.distributed sends arrays: by their places as far as these reach, as pickle does. Its own way for ndarrays sends the data."""

from __future__ import annotations

import enum
import ipaddress
import sys
from typing import Any, Callable, Optional
from urllib.parse import urlsplit

import numpy as np

class Reach(enum.Enum):
    """Where processes find the memory of an array."""

    MACHINE = "on the machine"
    JOB = "in the job"


_MODULE = "distributed.protocol.serialize"
_is_registered = False


def register(kind: type[np.ndarray], reach: Callable[[Any], Optional[Reach]]) -> None:
    """Lets distributed know how arrays of this kind are sent, once it is imported. Where their places lead is told by `reach`."""
    global _is_registered
    protocol = sys.modules.get(_MODULE)
    # While another thread imports it, it has not all names.
    dispatch = getattr(protocol, "dask_serialize", None)
    if _is_registered or dispatch is None:
        return

    def serialize(array: Any, context: Optional[dict[str, Any]] = None) -> Any:
        if _leads_there(reach(array), context):
            # The next way that distributed knows is pickle.
            raise NotImplementedError
        return dispatch.dispatch(np.ndarray)(array.view(np.ndarray))

    dispatch.register(kind, serialize)
    _is_registered = True


def _leads_there(reach: Optional[Reach], context: Optional[dict[str, Any]]) -> bool:
    """Whether the place leads to the memory where an array is sent."""
    if reach is Reach.JOB:
        # Workers are hosts of the job, or learn that they are none.
        return bool((context or {}).get("recipient"))
    return reach is Reach.MACHINE and _stays_here(context)


def _stays_here(context: Optional[dict[str, Any]]) -> bool:
    """Whether what is sent stays on this machine. Without a recipient it goes to a disk, where a place would not last."""
    ends = [(context or {}).get(end) or {} for end in ("sender", "recipient")]
    return all(_is_loopback(end.get("address")) for end in ends)


def _is_loopback(address: Any) -> bool:
    try:
        return ipaddress.ip_address(urlsplit(str(address)).hostname or "").is_loopback
    except ValueError:
        return False
