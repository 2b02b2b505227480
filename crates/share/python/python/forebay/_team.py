"""Teams: some hosts, or all, which reduce, broadcast and gather values together."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _share

#: What can become of two numbers.
REDUCTIONS = ("sum", "product", "min", "max", "and", "or", "xor")
#: Kinds and sizes of numbers that can be reduced.
NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
#: Of complex numbers, the kind of the two that each is.
COMPLEX = {"c8": "f4", "c16": "f8"}


class Team:
    """Some hosts, in an order. Made by `Host.team`.

    All members call its methods with the same arguments but for the values, by one thread each. Values are numbers or arrays
    of them, of the same shape and type on all members; results are ndarrays of this process. Where shapes or types differ, all
    members get a `ShareError`.
    """

    def __init__(self, native: _share.Host, team: Optional[_share.Team], members: Sequence[int]) -> None:
        self._native = native
        self._team = team
        self._members = tuple(members)

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks of its hosts."""
        return self._members

    @property
    def rank(self) -> Optional[int]:
        """The place of this host among them; None if it is no member."""
        return self._members.index(self._native.rank) if self._native.rank in self._members else None

    def barrier(self) -> None:
        """Wait until all members have called this."""
        self._native.team_barrier(self._team)

    def all_reduce(self, values: npt.ArrayLike, reduction: str = "sum") -> npt.NDArray[Any]:
        """What comes of the values of all members, in their order, by ``"sum"``, ``"product"``, ``"min"``, ``"max"``, ``"and"``,
        ``"or"`` or ``"xor"``. NaN in one of them comes out of ``"min"`` and ``"max"``, as of `numpy.minimum`. Sums and products
        of truth values are integers, as of `numpy.sum`. Complex numbers have a ``"sum"`` alone."""
        return self._reduce(values, reduction, None)

    def reduce(self, values: npt.ArrayLike, reduction: str = "sum", root: int = 0) -> Optional[npt.NDArray[Any]]:
        """The same for the member at the place `root` alone; None for the others."""
        reduced = self._reduce(values, reduction, self._place(root))
        return reduced if self.rank == root else None

    def broadcast(self, values: npt.ArrayLike, root: int = 0) -> npt.NDArray[Any]:
        """The values of the member at the place `root`. The others give values of the same shape and type."""
        mine = _plain(values)
        return _of(self._native.broadcast(self._team, _told(mine), mine.tobytes(), self._place(root)), mine, mine.shape)

    def all_gather(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """The values of all members, along a new first axis."""
        mine = _plain(values)
        gathered = self._native.all_gather(self._team, _told(mine), mine.tobytes())
        return _of(gathered, mine, (len(self._members), *mine.shape))

    def _reduce(self, values: npt.ArrayLike, reduction: str, root: Optional[int]) -> npt.NDArray[Any]:
        mine = _plain(values)
        if reduction not in REDUCTIONS:
            raise ValueError(f"reduction is {reduction!r}; it can be {', '.join(REDUCTIONS)}")
        told = _told(mine)
        if mine.dtype == bool and reduction in ("sum", "product"):
            mine = mine.astype(int)
        kind = f"{mine.dtype.kind}{mine.dtype.itemsize}"
        number = {"b1": "u1", **(COMPLEX if reduction == "sum" else {})}.get(kind, kind)
        if number not in NUMBERS:
            raise TypeError(f"{mine.dtype} cannot be reduced by {reduction!r}; use integers, bool, float32 or float64")
        return _of(self._native.reduce(self._team, told, mine.tobytes(), number, reduction, root), mine, mine.shape)

    def _place(self, root: int) -> int:
        root = operator.index(root)
        if not 0 <= root < len(self._members):
            raise ValueError(f"root is {root}; it is the place of a member in the team, from 0 to {len(self._members) - 1}")
        return root


def _told(values: npt.NDArray[Any]) -> str:
    """Shape and type, which are alike on all members."""
    return f"{values.shape} {values.dtype}" if values.ndim else str(values.dtype)


def _plain(values: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.hasobject:
        raise TypeError(f"elements of {array.dtype} cannot be exchanged; use numbers, texts or structures of them")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _of(data: bytes, like: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.frombuffer(bytearray(data), like.dtype).reshape(shape)
