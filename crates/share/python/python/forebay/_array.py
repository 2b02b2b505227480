"""Arrays of parts that lie apart in shared memory, each an ndarray."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Iterator, Optional, Union

import numpy as np
import numpy.typing as npt

from ._share import Place


class Array:
    """An array in shared memory. Made by `Host.array`.

    ``array[i]`` is a part: an ndarray of shape `part_shape` in the shared memory itself. Where parts are elements it is
    ``array[i, j]``, with an index for each axis, and has no axes; ``float(array[i, j])`` is its value. Further indices are
    those of the part, and give what NumPy gives: ``array[i, 2:5]``. To assign to either writes to the shared memory.

    Parts lie apart, in different views of the memory, so there are no slices of several of them: see `chunk`, `to_numpy`,
    `assign` and `as_ndarray`. ``len`` and iteration are over parts.

    Attributes: `shape`, `dtype`; `part_shape`, the shape of a part; `chunks`, how many chunks there are.
    """

    def __init__(
        self,
        allocate: Callable[[int, int, int], Place],
        shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        granularity: str,
        chunk: int,
    ) -> None:
        self.shape: tuple[int, ...] = tuple(operator.index(length) for length in shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        if self.dtype.hasobject or self.dtype.subdtype:
            raise TypeError(f"elements of {self.dtype} cannot be shared; use numbers, texts or structures of them")
        if not self.shape or min(self.shape) < 1 or self.dtype.itemsize == 0:
            raise ValueError(f"an array of shape {self.shape} of {self.dtype} has no bytes to share")
        if granularity not in ("row", "element"):
            raise ValueError(f"granularity is {granularity!r}; it can be 'row' or 'element'")
        if operator.index(chunk) < 1:
            raise ValueError(f"chunk is {chunk}; it is how many parts are shared together, at least 1")
        self._axes = 1 if granularity == "row" else self.ndim
        self.part_shape: tuple[int, ...] = self.shape[self._axes :]
        self._parts = math.prod(self.shape[: self._axes])
        self._chunk = min(operator.index(chunk), self._parts)
        self.chunks: int = -(-self._parts // self._chunk)

        size = math.prod(self.part_shape) * self.dtype.itemsize
        place = allocate(self._parts, size, self._chunk)
        self._steps = (place.group_step, place.chunk_step, size)
        groups = -(-self.chunks // place.group)
        # By group, chunk in the group and part in the chunk. What is behind the last part is never touched.
        self._grid = _ndarray(
            place.address,
            (groups, place.group, self._chunk) + self.part_shape,
            self._steps + _strides(self.part_shape, self.dtype.itemsize),
            self.dtype,
        )

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes its elements have."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __len__(self) -> int:
        return self._parts

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return map(self._part, range(self._parts))

    def __getitem__(self, index: Any) -> Any:
        part, inside = self._find(index)
        return self._part(part)[inside] if inside else self._part(part)

    def __setitem__(self, index: Any, values: npt.ArrayLike) -> None:
        part, inside = self._find(index)
        self._part(part)[inside or ...] = values

    def __array__(self, dtype: Optional[npt.DTypeLike] = None, copy: Optional[bool] = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the parts of a shared array lie apart; use as_ndarray(), or let it be copied")
        return self.to_numpy().astype(self.dtype if dtype is None else dtype, copy=False)

    def __repr__(self) -> str:
        return f"<shared array of shape {self.shape} of {self.dtype} in parts of shape {self.part_shape}>"

    def chunk(self, number: int) -> npt.NDArray[Any]:
        """Chunk `number`, from 0 to `chunks` - 1, as an ndarray in the shared memory: of shape (chunk, *part_shape), or
        shorter at the end."""
        if not 0 <= operator.index(number) < self.chunks:
            raise IndexError(f"there is no chunk {number}; there are {self.chunks}")
        group, chunk = divmod(number, self._grid.shape[1])
        return self._grid[group, chunk, : self._parts - number * self._chunk]

    def to_numpy(self, start: Optional[int] = None, stop: Optional[int] = None) -> npt.NDArray[Any]:
        """A copy, of memory that is not shared: of all, or of ``[start:stop]`` along the first axis."""
        first, last, shape = self._range(start, stop)
        copy = np.empty((last - first,) + self.part_shape, self.dtype)
        for begin, end, piece in self._pieces(first, last):
            copy[begin - first : end - first].reshape(piece.shape)[...] = piece
        return copy.reshape(shape)

    def assign(self, values: npt.ArrayLike, start: Optional[int] = None, stop: Optional[int] = None) -> None:
        """Write `values` to all, or to ``[start:stop]`` along the first axis, of whose shape they are or become by
        broadcasting."""
        first, last, shape = self._range(start, stop)
        given = np.broadcast_to(np.asarray(values), shape).reshape((last - first,) + self.part_shape)
        for begin, end, piece in self._pieces(first, last):
            piece[...] = given[begin - first : end - first].reshape(piece.shape)

    def as_ndarray(self) -> npt.NDArray[Any]:
        """All of it as one ndarray in the shared memory.

        That can be where parts are at one distance from each other: each has more than half a page (2048 bytes), or all
        are on one page or in one chunk, or chunks are whole pages. Raises ValueError elsewhere.
        """
        groups, chunks, parts = self._grid.shape[:3]
        group_step, chunk_step, part_step = self._steps
        step = part_step if parts > 1 else chunk_step
        if groups > 1 or (parts > 1 and chunks > 1 and chunk_step != parts * part_step):
            raise ValueError("the parts are not at one distance from each other; take them, or chunks, one at a time")
        outer = _strides(self.shape[: self._axes], step)
        address = self._grid.__array_interface__["data"][0]
        return _ndarray(address, self.shape, outer + self._grid.strides[3:], self.dtype)

    def _find(self, index: Any) -> tuple[int, tuple[Any, ...]]:
        """The number of a part, and the indices in it."""
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) < self._axes:
            raise IndexError(f"parts are elements: give {self._axes} indices, not {len(indices)}")
        part = 0
        for axis, length in enumerate(self.shape[: self._axes]):
            try:
                at = operator.index(indices[axis])
            except TypeError:
                raise TypeError(
                    f"a part is chosen by a whole number, not by {indices[axis]!r}: parts lie apart;"
                    " see chunk(), to_numpy(), assign() and as_ndarray()"
                ) from None
            if not -length <= at < length:
                raise IndexError(f"index {at} is out of bounds for axis {axis} with size {length}")
            part = part * length + at % length
        return part, indices[self._axes :]

    def _part(self, part: int) -> npt.NDArray[Any]:
        chunk, inside = divmod(part, self._chunk)
        # The dots make an element an ndarray too.
        array: npt.NDArray[Any] = self._grid[divmod(chunk, self._grid.shape[1]) + (inside, ...)]
        return array

    def _range(self, start: Optional[int], stop: Optional[int]) -> tuple[int, int, tuple[int, ...]]:
        """The first part, the one after the last, and their shape together."""
        first, last, _ = slice(start, stop).indices(self.shape[0])
        each = self._parts // self.shape[0]
        return first * each, max(first, last) * each, (max(last - first, 0),) + self.shape[1:]

    def _pieces(self, start: int, stop: int) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
        """Parts as few ndarrays: whole groups together, else within a chunk."""
        group = self._grid.shape[1] * self._chunk
        while start < stop:
            groups = (stop - start) // group
            if start % group == 0 and groups > 0:
                end, first = start + groups * group, start // group
                yield start, end, self._grid[first : first + groups]
            else:
                chunk, inside = divmod(start, self._chunk)
                end = min(stop, start - inside + self._chunk)
                yield start, end, self.chunk(chunk)[inside : inside + end - start]
            start = end


def pieces(array: Union[Array, npt.NDArray[Any]]) -> Iterator[tuple[int, int]]:
    """Address and size in bytes of each piece of memory that an array has."""
    if isinstance(array, Array):
        for number in range(array.chunks):
            yield from pieces(array.chunk(number))
    elif not isinstance(array, np.ndarray):
        raise TypeError(f"{array!r} is no array; pass one that lies in shared memory, or part of one")
    elif array.flags.forc:
        if array.size > 0:
            yield array.__array_interface__["data"][0], array.nbytes
    else:
        for index in range(len(array)):
            yield from pieces(array[index, ...])


class _Memory:
    """Memory, as NumPy asks for it. It is there for as long as the process."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "strides": strides,
            "typestr": f"|V{size}",
        }


def _ndarray(
    address: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    return np.asarray(_Memory(address, shape, strides, dtype.itemsize)).view(dtype)


def _strides(shape: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Distances along each axis where elements are `step` bytes apart."""
    return tuple(step * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
