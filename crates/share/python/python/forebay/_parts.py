"""Arrays between machines whose parts lie apart in shared memory, each an ndarray."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Iterator
from functools import wraps
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from ._array import Gone, find, memory_of, place
from ._fetched import Fetched, InPieces, present
from ._memory import Handle
from ._share import ShareError


# NumPy shuffles what is no ndarray by swaps, in which it overwrites a part before it has read it. It warns of that first.
warnings.filterwarnings("error", "you are shuffling a 'Parts' object", UserWarning)


class Parts(NDArrayOperatorsMixin, InPieces):
    """An array between machines whose parts are protected one by one, and so lie apart. Made by `Host.array`.

    It is used like an ndarray. ``array[i]`` and ``array[2:5]`` are the shared memory itself; operations gather what they read,
    and write the elements that they have changed. ``array[[1, 2]]`` and ``array[mask]`` are copies, as of an ndarray. What else NumPy has a
    view for (``array.T``, ``array[1:4, 0]``, ``np.asarray(array)``) is a copy that cannot be written to. ``array[1:4, 0] += 1`` works.

    ``numpy.random`` refuses to shuffle it in place: ``array.assign(generator.permutation(array.to_numpy()))`` does that.
    """

    #: Above an ndarray, which leaves operations to it.
    __array_priority__ = 1.0

    _memory: npt.NDArray[np.uint8]
    _table: npt.NDArray[np.int64]
    _chunk: int
    part_shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(
        self, memory: npt.NDArray[np.uint8], table: npt.NDArray[np.int64], part_shape: tuple[int, ...],
        dtype: np.dtype[Any], chunk: int,
    ) -> None:
        self.__dict__.update(_memory=memory, _table=table, _chunk=chunk, part_shape=part_shape, dtype=dtype)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses what an ndarray would write to its elements, as by ``array.flat = 5``, or change of itself."""
        raise AttributeError(f"{name!r} of an array whose parts lie apart cannot be set; see assign()")

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
            copied = self.to_numpy()[_gathered(index)]
            return copied if _copies(index) else _chosen(copied, self, index)
        chosen = self._table[outer]
        if not isinstance(chosen, np.ndarray) or chosen.ndim == 0:
            return self._part(int(chosen))[inner or ()]
        if inner:
            return _chosen(self._with(chosen).to_numpy()[(slice(None),) * chosen.ndim + inner], self, index)
        return self._with(chosen)

    def address(self) -> int:
        """Where the first element is."""
        return int(self._memory.__array_interface__["data"][0]) + int(self._table.flat[0])

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
        # Nothing else is written.
        copies = Copies(list(named.get("out", ())) + list(inputs[:1] if method == "at" else ()))
        return copies.given(copies.call(getattr(ufunc, method), inputs, named))

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        return _called(function, arguments, named)

    def __getattr__(self, name: str) -> Any:
        """The methods of an ndarray that change nothing but what they are given to write to, of a copy."""
        if name.startswith("_") or name in CHANGING or not hasattr(np.ndarray, name):
            raise AttributeError(f"an array whose parts lie apart has no attribute {name!r}; see to_numpy() and assign()")
        found = getattr(_frozen(self.to_numpy()), name)
        return (lambda *arguments, **named: _called(found, arguments, named)) if callable(found) else found

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
        memory = memory_of(self._memory)
        if memory is None:
            return self.to_numpy().__reduce_ex__(protocol)
        return _attached, (tuple(memory.handle()), self._table, self.part_shape, self.dtype, self._chunk)

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
        return self._places(self._part_bytes)[self._table.reshape(-1)].view(self.dtype).reshape(self.shape)

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
            places = self._places(self._part_bytes)
            places[self._table.reshape(-1)] = given.reshape(-1).view(places.dtype)

    def write_changed(self, values: npt.NDArray[Any], before: npt.NDArray[Any]) -> None:
        """Writes those elements alone that are others than `before`, since hosts may be writing to the rest."""
        elements = [one.reshape(-1).view(np.uint8).reshape(self.size, -1) for one in (values, before)]
        changed = np.flatnonzero((elements[0] != elements[1]).any(axis=1))
        if changed.size:
            parts, inside = np.divmod(changed, math.prod(self.part_shape))
            table = self._table.reshape(-1)
            present([self._with(table[np.unique(parts)])], write=True)
            places = self._places(self.itemsize)
            places[table[parts] + inside * self.itemsize] = values.reshape(-1).view(places.dtype)[changed]

    def _split(self, index: Any) -> Any:
        """The indices that choose parts and those in a part; two None where there are others than numbers and slices."""
        indices = index if isinstance(index, tuple) else (index,)
        if _copies(index) or any(one is None for one in indices):
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

    def _places(self, size: int) -> npt.NDArray[Any]:
        """All places at which so many bytes could be, byte by byte."""
        return np.ndarray((self._memory.size - size + 1,), np.dtype((np.void, size)), self._memory, 0, (1,))


def _attached(handle: tuple[Any, ...], *description: Any) -> Any:
    """What a pickled array becomes: the same memory, in a host of the job."""
    try:
        memory, _ = find(Handle(*handle))
    except ShareError as error:
        return Gone(str(error))
    return Parts(memory, *description)


class Chosen(np.ndarray):
    """What an index chooses across parts, where an ndarray has a view: a copy that cannot be written to. ``+=`` and its like change
    what the index chooses of the parts, and the copy."""

    #: What it is a copy of, by which index; None where it was made of such a copy.
    _parts: Optional[tuple[Parts, Any]] = None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = array.view(np.ndarray)
        return plain if plain.ndim else plain[()]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)


def _chosen(copied: Any, parts: Parts, index: Any) -> Any:
    if not isinstance(copied, np.ndarray):
        return copied
    chosen = copied.view(Chosen)
    chosen._parts = parts, index
    return _frozen(chosen)


def _in_place(name: str) -> Any:
    operate = getattr(np.ndarray, name)

    @wraps(operate)
    def act(self: Chosen, other: Any) -> Any:
        if self._parts is None:
            return operate(self, other)
        parts, index = self._parts
        # Hosts may have written since it was copied.
        values = operate(np.array(parts[index], subok=False), other)
        parts[index] = values
        self.flags.writeable = True
        self.view(np.ndarray)[...] = values
        self.flags.writeable = False
        return self

    return act


for _name in "add sub mul matmul truediv floordiv mod pow lshift rshift and or xor".split():
    # Some versions of NumPy have no product of matrices in place.
    if hasattr(np.ndarray, f"__i{_name}__"):
        setattr(Chosen, f"__i{_name}__", _in_place(f"__i{_name}__"))


class Copies:
    """Copies with which NumPy is called in place of arrays whose parts lie apart. What it writes to one is written to the parts."""

    def __init__(self, written: list[Any]) -> None:
        """`written` are the arguments that may be written."""
        self._written = [value for value in _flat(written) if isinstance(value, Parts)]
        self._taken: list[tuple[Parts, npt.NDArray[Any]]] = []

    def call(self, function: Any, arguments: Any, named: dict[str, Any]) -> Any:
        """What the function makes of the copies."""
        plain, by_name = [self._of(value) for value in arguments], {key: self._of(value) for key, value in named.items()}
        is_written = [any(parts is one for one in self._written) for parts, _ in self._taken]
        taken = [pair for pair, is_one in zip(self._taken, is_written) if is_one]
        before = [copied.copy() for _, copied in taken]
        result = function(*plain, **by_name)
        for (parts, copied), old in zip(taken, before):
            if parts.size:
                parts.write_changed(copied, old)
        return result

    def given(self, result: Any) -> Any:
        """A result as the program gets it: the array itself for its copy, and what is a view of a copy as one of those."""
        if type(result) in (list, tuple):
            return type(result)(map(self.given, result))
        for parts, copied in self._taken:
            if result is copied:
                return parts
            if isinstance(result, np.ndarray) and np.may_share_memory(result, copied):
                return _frozen(result)
        return result

    def _of(self, value: Any) -> Any:
        if isinstance(value, Parts):
            known = next((copied for parts, copied in self._taken if parts is value), None)
            if known is None:
                known = value.to_numpy()
                self._taken.append((value, known))
            return known
        return type(value)(map(self._of, value)) if type(value) in (list, tuple) else value


def _called(function: Any, arguments: Any, named: Any) -> Any:
    """What a function of NumPy returns, which may write to any argument, given by its place or by its name."""
    copies = Copies([*arguments, *named.values()])
    return copies.given(copies.call(function, arguments, named))


#: Methods that are none of an array whose parts lie apart.
CHANGING = frozenset("base byteswap ctypes data flags partition put resize setfield setflags strides view".split())


def _copies(index: Any) -> bool:
    """Whether NumPy copies what an index chooses."""
    indices = index if isinstance(index, tuple) else (index,)
    return any(isinstance(one, (list, np.ndarray, bool, np.bool_, Parts)) for one in indices)


def _gathered(value: Any) -> Any:
    """The same with copies of arrays whose parts lie apart."""
    if isinstance(value, Parts):
        return value.to_numpy()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_gathered, value)) if type(value) in (list, tuple) else value
    return value


def _flat(values: Any) -> Iterator[Any]:
    """The same without lists and tuples around them."""
    for value in values:
        if type(value) in (list, tuple):
            yield from _flat(value)
        else:
            yield value


def _frozen(array: Any) -> Any:
    """So that no program writes to a copy and believes that it is shared."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array
