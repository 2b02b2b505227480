"""Where a host's arrays lie in the memory of its job: in one piece on one machine, in parts between machines."""

from __future__ import annotations

import math
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _array, _fetched, _share
from ._array import Array, Job, keep_temporaries, place
from ._fetched import PAGE_BYTES, Fetched
from ._memory import JobMemory
from ._parts import Parts

#: Without a granularity, rows have pages of their own where that takes at most this part of the memory that is left, and so many
#: times the memory of the rows or so many bytes.
ROOM = 8
TIMES = 4
BYTES = 8 << 20


class HostArrays:
    """The arrays of one host."""

    def __init__(self, native: _share.Host) -> None:
        self._native = native
        memory = JobMemory(*native.memory())
        self._is_together = memory.is_one
        self._memory: npt.NDArray[np.uint8] = np.asarray(memory)
        # A child that is forked has the only memory, and is no host.
        is_usable = (lambda: True) if self._is_together else native.is_host
        self._kind: type[Array] = Array if self._is_together else Fetched
        _array.set_job(Job(self._memory, self._kind, is_usable, self.allocate_alone))
        _fetched.set_fetch(native.touch)

    def allocate(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        granularity: Optional[str],
        chunk: int,
        placement: tuple[str, int],
    ) -> Any:
        """An array of zeros."""
        _check(shape, dtype)
        if granularity not in (None, "row", "element"):
            raise ValueError(f"granularity is {granularity!r}; it can be 'row' or 'element'")
        if chunk < 1:
            raise ValueError(f"chunk is {chunk}; it is how many parts are shared together, at least 1")
        named = {"granularity": granularity, "chunk": chunk, "placement": placement[placement[0] == "rank"]}
        call = f"array({shape}, {dtype}, {', '.join(f'{name}={value!r}' for name, value in named.items())})"
        axes = len(shape) if granularity == "element" else 1
        parts, size = math.prod(shape[:axes]), math.prod(shape[axes:]) * dtype.itemsize
        if self._is_together:
            found = self._native.rows(call, parts, size, parts, *placement)
            return self._place(found.address, shape, dtype, None, axes, min(chunk, parts), Array)
        if granularity is None and chunk == 1:
            return self._in_pages(call, shape, dtype, size, placement)
        chunk = min(chunk, parts)
        found = self._native.rows(call, parts, size, chunk, *placement)
        table = self._table(found, parts, size, chunk).reshape(shape[:axes])
        step = _step(table.reshape(-1))
        if step is None:
            return Parts(self._memory, table, shape[axes:], dtype, chunk)
        strides = _strides(shape[:axes], step) + _strides(shape[axes:], dtype.itemsize)
        return self._place(found.address, shape, dtype, strides, axes, chunk, Fetched)

    def allocate_alone(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array of zeros that this host allocates alone, in one part."""
        _check(shape, dtype)
        return self._alone(self._native.malloc(math.prod(shape) * dtype.itemsize), shape, dtype)

    def at(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """The array at an address that a host has told."""
        _check(shape, dtype)
        self._native.has_bytes(address, math.prod(shape) * dtype.itemsize)
        return self._alone(address, shape, dtype)

    def _alone(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return self._place(address, shape, dtype, None, 1, shape[0], self._kind)

    def _in_pages(
        self, call: str, shape: tuple[int, ...], dtype: np.dtype[Any], size: int, placement: tuple[str, int]
    ) -> Array:
        """One ndarray between machines: of rows that have pages of their own, or of pages."""
        rows, pages = shape[0], -(-size // PAGE_BYTES)
        taken = rows * pages * PAGE_BYTES
        has_room = taken <= self._native.left() // ROOM and taken <= max(TIMES * rows * size, BYTES)
        if size % PAGE_BYTES == 0 or rows == 1 or (len(shape) > 1 and has_room):
            # More than half a page has the page alone.
            found = self._native.rows(call, rows, max(size, PAGE_BYTES // 2 + 1), 1, *placement)
            strides = (pages * PAGE_BYTES,) + _strides(shape[1:], dtype.itemsize)
        else:
            found = self._native.rows(call, -(-rows * size // PAGE_BYTES), PAGE_BYTES, 1, *placement)
            strides = _strides(shape, dtype.itemsize)
        return self._place(found.address, shape, dtype, strides, 1, 1, Fetched)

    def _place(self, address: int, *description: Any) -> Array:
        shape, dtype, strides, axes, chunk, kind = description
        offset = address - _array.address(self._memory)
        return keep_temporaries(place(self._memory, offset, shape, dtype, strides, axes, chunk, kind))

    def _table(self, found: _share.Place, parts: int, size: int, chunk: int) -> npt.NDArray[np.int64]:
        """Where each part is, from the beginning of the memory: groups of chunks of parts."""
        groups = -(-parts // (found.group * chunk))
        steps = zip((found.group_step, found.chunk_step, size), (groups, found.group, chunk))
        by_group, by_chunk, by_part = (step * np.arange(count, dtype=np.int64) for step, count in steps)
        table = by_group[:, np.newaxis, np.newaxis] + by_chunk[:, np.newaxis] + by_part
        return table.reshape(-1)[:parts] + (found.address - _array.address(self._memory))


def _check(shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    _array.check_dtype(dtype)
    if not shape or min(shape) < 1 or dtype.itemsize == 0:
        raise ValueError(f"an array of shape {shape} of {dtype} has no bytes to share")


def _step(table: npt.NDArray[np.int64]) -> Optional[int]:
    """The distance from each part to the next, where there is one."""
    steps = np.diff(table)
    if not len(steps):
        return 0
    return int(steps[0]) if (steps == steps[0]).all() else None


def _strides(shape: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Distances along each axis where elements are `step` bytes apart."""
    return tuple(step * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
