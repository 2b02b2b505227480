"""Arrays between machines whose parts lie apart in shared memory, each an ndarray."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from ._array import place
from ._fetched import Fetched, InPieces, present


class Parts(NDArrayOperatorsMixin, InPieces):
    """An array between machines whose parts are protected one by one, and so lie apart. Made by `Host.array`.

    It is used like an ndarray. ``array[i]`` and ``array[2:5]`` are the shared memory itself; operations gather what they read,
    and scatter what they write. What else NumPy makes of it (``array.T``, ``array[[1, 2]]``, ``np.asarray(array)``) is a
    copy that cannot be written to.
    """

    #: Above an ndarray, which leaves operations to it.
    __array_priority__ = 1.0

    def __init__(
        self, memory: npt.NDArray[np.uint8], table: npt.NDArray[np.int64], part_shape: tuple[int, ...],
        dtype: np.dtype[Any], chunk: int,
    ) -> None:
        self._memory = memory
        self._table = table
        self._chunk = chunk
        self.part_shape = part_shape
        self.dtype = dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an ndarray."""
        return self._table.shape + self.part_shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """How many bytes an element has."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """How many bytes its elements have."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self._table.size // self._chunk)

    @property
    def T(self) -> npt.NDArray[Any]:
        """A copy with its axes in reverse order."""
        return _frozen(self.to_numpy().T)

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"<shared array of shape {self.shape} of {self.dtype} in parts of shape {self.part_shape}>"

    def __getitem__(self, index: Any) -> Any:
        outer, inner = self._split(index)
        if outer is None:
            return _frozen(self.to_numpy()[_gathered(index)])
        chosen = self._table[outer]
        if not isinstance(chosen, np.ndarray) or chosen.ndim == 0:
            return self._part(int(chosen))[inner or ()]
        if inner:
            return _frozen(self._with(chosen).to_numpy()[(slice(None),) * chosen.ndim + inner])
        return self._with(chosen)

    def element(self, index: tuple[int, ...]) -> npt.NDArray[Any]:
        """The element at an index, as an array without axes: the shared memory itself."""
        axes = self._table.ndim
        return self._part(int(self._table[index[:axes]])).view(np.ndarray)[(*index[axes:], ...)]

    def __setitem__(self, index: Any, values: Any) -> None:
        outer, inner = self._split(index)
        if outer is None:
            # The elements that are chosen, by their place in the whole.
            numbers = np.arange(self.size).reshape(self.shape)[_gathered(index)]
            values = np.broadcast_to(np.asarray(values), np.shape(numbers)).reshape(-1)
            for number, value in zip(np.reshape(numbers, -1).tolist(), values):
                part, inside = divmod(number, math.prod(self.part_shape))
                self._part(int(self._table.reshape(-1)[part])).reshape(-1)[inside] = value
            return
        chosen = np.asarray(self._table[outer])
        if not inner:
            self._with(chosen)._scatter(values)
            return
        parts = [self._part(offset)[inner + (...,)] for offset in chosen.reshape(-1).tolist()]
        if parts:
            present(parts, write=True)
            shape = parts[0].shape
            given = np.broadcast_to(np.asarray(values), chosen.shape + shape).reshape((len(parts),) + shape)
            for part, value in zip(parts, given):
                part[...] = value

    def __array__(self, dtype: Optional[npt.DTypeLike] = None, copy: Optional[bool] = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the parts of this array lie apart; take one part, or let the array be copied")
        copied = self.to_numpy().astype(self.dtype if dtype is None else dtype, copy=False)
        return copied if copy else _frozen(copied)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        out = named.pop("out", ())
        if out:
            named["out"] = tuple(map(_gathered, out))
        plain = [_gathered(value) for value in inputs]
        result = getattr(ufunc, method)(*plain, **{key: _gathered(value) for key, value in named.items()})
        written = zip(out, named["out"]) if out else zip(inputs[:1], plain) if method == "at" else ()
        for given, value in written:
            if isinstance(given, Parts):
                given._scatter(value)
        if not out:
            return result
        return out[0] if len(out) == 1 else tuple(r if o is None else o for o, r in zip(out, result))

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        gathered = [_gathered(value) for value in arguments]
        out = named.get("out")
        result = function(*gathered, **{key: _gathered(value) for key, value in named.items()})
        if isinstance(out, Parts):
            out._scatter(result)
            return out
        if function in WRITING and arguments and isinstance(arguments[0], Parts):
            arguments[0]._scatter(gathered[0])
        return result

    def __getattr__(self, name: str) -> Any:
        """The methods of an ndarray that change nothing, of a copy."""
        if name.startswith("_") or name in CHANGING or not hasattr(np.ndarray, name):
            raise AttributeError(f"an array whose parts lie apart has no attribute {name!r}; see to_numpy() and assign()")
        return getattr(_frozen(self.to_numpy()), name)

    def __bool__(self) -> bool:
        return bool(self.to_numpy())

    def __float__(self) -> float:
        return float(self.to_numpy())

    def __int__(self) -> int:
        return int(self.to_numpy())

    def __contains__(self, value: Any) -> bool:
        return value in self.to_numpy()

    def __copy__(self) -> npt.NDArray[Any]:
        return self.to_numpy()

    def __deepcopy__(self, memo: Any) -> npt.NDArray[Any]:
        return self.to_numpy()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.to_numpy().__reduce_ex__(protocol)

    def fill(self, value: Any) -> None:
        """Writes `value` to all elements."""
        self._scatter(value)

    def sort(self, axis: int = -1, **named: Any) -> None:
        """Sorts as an ndarray does."""
        self._scatter(np.sort(self.to_numpy(), axis=axis, **named))

    def chunk(self, number: int) -> Parts:
        """Chunk `number`, from 0 to `chunks` - 1, of shape (chunk, *part_shape), or shorter at the end."""
        if not 0 <= operator.index(number) < self.chunks:
            raise IndexError(f"there is no chunk {number}; there are {self.chunks}")
        return self._with(self._table.reshape(-1)[number * self._chunk : (number + 1) * self._chunk])

    def to_numpy(self, start: Optional[int] = None, stop: Optional[int] = None) -> npt.NDArray[Any]:
        """A copy, of memory that is not shared: of all, or of ``[start:stop]`` along the first axis."""
        if start is not None or stop is not None:
            return self._with(self._table[start:stop]).to_numpy()
        present([self], write=False)
        return self._places()[self._table.reshape(-1)].view(self.dtype).reshape(self.shape)

    def assign(self, values: npt.ArrayLike, start: Optional[int] = None, stop: Optional[int] = None) -> None:
        """Write `values` to all, or to ``[start:stop]`` along the first axis, of whose shape they are or become by
        broadcasting."""
        self._with(self._table[start:stop])._scatter(values)

    def as_ndarray(self) -> npt.NDArray[Any]:
        """Raises ValueError: there is no ndarray of parts that are not at one distance from each other."""
        raise ValueError("the parts are not at one distance from each other; take them, or chunks, one at a time")

    def pieces(self) -> list[tuple[int, int]]:
        """Address and size in bytes of each part."""
        base = self._memory.__array_interface__["data"][0]
        return [(base + offset, self._part_bytes) for offset in self._table.reshape(-1).tolist()]

    def _scatter(self, values: Any) -> None:
        """Writes to all parts, in one request."""
        given = np.empty(self.shape, self.dtype)
        given[...] = _gathered(values)
        if self._table.size:
            present([self], write=True)
            places = self._places()
            places[self._table.reshape(-1)] = given.reshape(-1).view(places.dtype)

    def _split(self, index: Any) -> Any:
        """The indices that choose parts and those in a part; two None where there are others than numbers and slices."""
        indices = index if isinstance(index, tuple) else (index,)
        if any(one is None or isinstance(one, (list, np.ndarray, bool, np.bool_, Parts)) for one in indices):
            return None, None
        if any(one is ... for one in indices):
            at = next(at for at, one in enumerate(indices) if one is ...)
            rest = (slice(None),) * (self.ndim - len(indices) + 1)
            indices = indices[:at] + rest + indices[at + 1 :]
        if len(indices) > self.ndim:
            raise IndexError(f"too many indices: the array has {self.ndim} axes, and {len(indices)} were given")
        return indices[: self._table.ndim], indices[self._table.ndim :]

    @property
    def _part_bytes(self) -> int:
        return math.prod(self.part_shape) * self.dtype.itemsize

    def _part(self, offset: int) -> Fetched:
        return place(self._memory, offset, self.part_shape, self.dtype, kind=Fetched)  # type: ignore[return-value]

    def _with(self, table: Any) -> Parts:
        return Parts(self._memory, np.asarray(table), self.part_shape, self.dtype, self._chunk)

    def _places(self) -> npt.NDArray[Any]:
        """All places at which a part could be, byte by byte."""
        kind = np.dtype((np.void, self._part_bytes))
        return np.ndarray((self._memory.size - self._part_bytes + 1,), kind, self._memory, 0, (1,))


#: Functions that write to their first argument, and methods that are none of an array whose parts lie apart.
WRITING = frozenset((np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask))
CHANGING = frozenset("base byteswap ctypes data flags partition put resize setfield setflags strides view".split())


def _gathered(value: Any) -> Any:
    """The same with copies of arrays whose parts lie apart."""
    if isinstance(value, Parts):
        return value.to_numpy()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_gathered, value)) if type(value) in (list, tuple) else value
    return value


def _frozen(array: Any) -> Any:
    """So that no program writes to a copy and believes that it is shared."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array
