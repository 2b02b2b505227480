"""Arrays of jobs whose hosts have memories of their own: an operation makes present what it needs before it runs.

An access to memory that is not present works too, a message or two for each minipage. What an operation needs is asked for
together, so it waits once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from ._array import Array, memory_of

#: Calls the host: pieces of memory, and whether they are to be written.
_fetch: Callable[[list[tuple[int, int]], bool], None] = lambda pieces, write: None
#: Of memory, the grain of protection.
PAGE_BYTES = 4096
#: Bytes that are written to a file from a private copy at a time.
WINDOW = 1 << 20


def set_fetch(fetch: Callable[[list[tuple[int, int]], bool], None]) -> None:
    """How memory is made present from now on."""
    global _fetch
    _fetch = fetch


def pieces(array: npt.NDArray[Any]) -> list[tuple[int, int]]:
    """Address and size in bytes of each piece of memory that an ndarray has. Gaps of less than a page are in a piece."""
    if array.size == 0:
        return []
    address = array.__array_interface__["data"][0]
    axes = [(stride, length) for stride, length in zip(array.strides, array.shape) if length > 1]
    starts = np.array([address + sum(stride * (length - 1) for stride, length in axes if stride < 0)])
    extent = array.itemsize
    for stride, length in sorted((abs(stride), length) for stride, length in axes):
        if len(starts) == 1 and stride < extent + PAGE_BYTES:
            extent += stride * (length - 1)
        else:
            starts = (starts[:, np.newaxis] + stride * np.arange(length)).reshape(-1)
    return [(start, extent) for start in starts.tolist()]


class InPieces:
    """An array that knows where its pieces are."""

    def pieces(self) -> list[tuple[int, int]]:
        """Address and size in bytes of each."""
        raise NotImplementedError


def present(arrays: Sequence[Any], write: bool) -> None:
    """Waits until this host may read, or write, all of these that are shared, in one request."""
    wanted = [piece for array in arrays for piece in _shared(array)]
    if wanted:
        _fetch(wanted, write)


class Fetched(Array):
    """An ndarray in the memory of one host of several. Made by `Host.array`."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **named: Any) -> Any:
        out = named.get("out", ())
        present([*inputs, *named.values()], write=False)
        present(inputs[:1] if method == "at" else out, write=True)
        if out:
            named["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **{key: _plain(value) for key, value in named.items()})
        if not out:
            return result
        return out[0] if len(out) == 1 else tuple(map(_given, out, result))

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        present(list(_arrays([*arguments, *named.values()])), write=False)
        present(list(_arrays([named.get("out")])), write=True)
        return super().__array_function__(function, types, arguments, named)

    def __getitem__(self, index: Any) -> Any:
        if _is_advanced(index):
            present(list(_chosen(self, index)), write=False)
        return super().__getitem__(index)

    def __setitem__(self, index: Any, values: Any) -> None:
        present([values], write=False)
        if _is_advanced(index):
            present(list(_chosen(self, index)), write=True)
        else:
            present([super().__getitem__(index)], write=True)
        super().__setitem__(index, _plain(values))

    def reshape(self, *shape: Any, **named: Any) -> Any:
        """As of an ndarray. Where rows have pages of their own it may be a copy, which then cannot be written to."""
        return self._of_rows(super().reshape(*shape, **named))

    def ravel(self, *order: Any, **named: Any) -> Any:
        """As `reshape`."""
        present([self], write=False)
        return self._of_rows(super().ravel(*order, **named))

    def _of_rows(self, result: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Freezes a copy that would be a view if the rows were next to each other: no program believes that it is shared."""
        have_pages = self.ndim > 1 and self.size > 0 and self.strides[0] % PAGE_BYTES == 0
        if have_pages and np.ndarray.__getitem__(self, 0).flags.c_contiguous and memory_of(self) is not memory_of(result):
            result.flags.writeable = False
        return result

    def tofile(self, file: Any, sep: str = "", format: str = "%s") -> None:
        """As of an ndarray, from private copies: no system call is given memory that may not be present."""
        if sep or not hasattr(file, "write"):
            return self.to_numpy().tofile(file, sep, format)
        flat = self.as_ndarray().reshape(-1)
        step = max(1, WINDOW // max(1, self.itemsize))
        for begin in range(0, flat.size, step):
            flat[begin : begin + step].copy().tofile(file)


#: Methods of an ndarray that read all of it without a ufunc, and those that write it.
READING = (
    "argmax argmin argpartition argsort astype byteswap choose clip compress copy diagonal dot dump dumps flatten item nonzero"
    " repeat round searchsorted take tobytes tolist trace"
)
WRITING = "fill partition put sort"


def _making_present(name: str, write: bool) -> Any:
    method = getattr(np.ndarray, name)

    @wraps(method)
    def call(self: Fetched, *arguments: Any, **named: Any) -> Any:
        present([self, *arguments], write=False)
        present([self] if write else [named.get("out")], write=True)
        return method(self, *arguments, **named)

    return call


for _name in READING.split():
    setattr(Fetched, _name, _making_present(_name, write=False))
for _name in WRITING.split():
    setattr(Fetched, _name, _making_present(_name, write=True))


def _shared(array: Any) -> list[tuple[int, int]]:
    if isinstance(array, InPieces):
        return array.pieces()
    # Copies of shared arrays have the same type.
    return pieces(array) if isinstance(array, Fetched) and memory_of(array) is not None else []


def _plain(value: Any) -> Any:
    return value.as_ndarray() if isinstance(value, Fetched) else value


def _given(out: Any, result: Any) -> Any:
    return result if out is None else out


def _arrays(values: Any) -> Iterator[Any]:
    """Shared arrays among arguments, in lists too."""
    for value in values:
        if isinstance(value, Fetched):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _arrays(value)


def _is_advanced(index: Any) -> bool:
    indices = index if isinstance(index, tuple) else (index,)
    return any(isinstance(one, (list, np.ndarray, bool)) for one in indices)


def _chosen(array: Fetched, index: Any) -> Iterator[npt.NDArray[Any]]:
    """What an index by lists or arrays chooses along the first axis, and perhaps more."""
    first = index[0] if isinstance(index, tuple) else index
    plain = np.asarray(first) if isinstance(first, (list, np.ndarray)) else None
    view = array.view(Fetched)
    if plain is None or plain.ndim == 0 or array.ndim == 0:
        yield view
        return
    numbers = np.flatnonzero(plain.any(axis=tuple(range(1, plain.ndim)))) if plain.dtype == bool else np.unique(plain)
    for number in numbers:
        if -len(array) <= number < len(array):
            yield np.ndarray.__getitem__(view, slice(number, number + 1 or None))
