"""Arrays that are one ndarray in shared memory."""

from __future__ import annotations

import ast
import math
import operator
import struct
from collections.abc import Callable
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin

from . import _distributed, _memory
from ._memory import Handle, JobMemory, Segment
from ._share import ShareError

#: The data of an array begin at a multiple of this.
ALIGNMENT = 64
#: What an array in an object of its own begins with, behind the count: which version this is, and the size of a text. That is the
#: array's shape and type.
HEAD = struct.Struct("<8sQ")
VERSION = b"forebay1"
_TEXT = _memory.COUNT_BYTES + HEAD.size
#: What malloc(3) keeps at most of what is freed, in bytes of one block.
KEPT_MAX = 31 << 20
#: Temporaries of an expression, in arrays.
TEMPORARIES = 4


class Array(np.ndarray):
    """An ndarray in shared memory. Made by `forebay.share.array`, `forebay.share.attach` and `Host.array`.

    Slices and other views are arrays in the same memory. Results of arithmetic are plain ndarrays of this process.

    Pickling keeps the place, not the data: a process of this machine that unpickles the array maps the same memory. Where a job has
    several memories, hosts of the job do that, on any machine. To pickle or copy the data, pass `to_numpy()` or ``np.array(array)``.

    A *part* is what hosts on several machines share at a time: a row, unless `Host.array` was told otherwise.
    """

    #: How many axes choose a part, and how many neighbouring parts are a chunk.
    _axes = 1
    _chunk = 1

    @property
    def name(self) -> Optional[str]:
        """By which other processes of this machine attach the array; None for an array of a job, or of this process alone."""
        memory = memory_of(self)
        return memory.label[len(_memory.PREFIX) :] if isinstance(memory, Segment) else None

    @property
    def part_shape(self) -> tuple[int, ...]:
        """The shape of a part."""
        return self.shape[self._axes :]

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-math.prod(self.shape[: self._axes]) // self._chunk)

    def chunk(self, number: int) -> npt.NDArray[Any]:
        """Chunk `number`, from 0 to `chunks` - 1: a view of shape (chunk, *part_shape), or shorter at the end."""
        if not 0 <= operator.index(number) < self.chunks:
            raise IndexError(f"there is no chunk {number}; there are {self.chunks}")
        parts = self.reshape((-1, *self.part_shape))
        if not np.may_share_memory(parts, self):
            raise ValueError("the chunks of this view are not next to each other; take those of the whole array")
        return parts[number * self._chunk : (number + 1) * self._chunk]

    def to_numpy(self, start: Optional[int] = None, stop: Optional[int] = None) -> npt.NDArray[Any]:
        """A copy, of memory that is not shared: of all, or of ``[start:stop]`` along the first axis."""
        return np.array(self[start:stop] if self.ndim else self, subok=False)

    def assign(self, values: npt.ArrayLike, start: Optional[int] = None, stop: Optional[int] = None) -> None:
        """Write `values` to all, or to ``[start:stop]`` along the first axis, of whose shape they are or become by
        broadcasting."""
        self[slice(start, stop) if self.ndim else ...] = np.asarray(values)

    def as_ndarray(self) -> npt.NDArray[Any]:
        """The same memory as a plain ndarray."""
        return self.view(np.ndarray)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # A result that is a view of itself could not be reused for the next operation of an expression.
        plain = array if array is self or type(array) is np.ndarray else array.view(np.ndarray)
        return plain if plain.ndim or array is self else plain[()]

    def __reduce_ex__(self, protocol: Any) -> Any:
        memory = memory_of(self) if self.size else None
        if memory is None:
            return self.as_ndarray().__reduce_ex__(protocol)
        offset = address(self) - memory.address
        description = (self.shape, self.strides, self.dtype, self._axes, self._chunk, self.flags.writeable)
        return _attached, (tuple(memory.handle()), offset, *description)

    def __reduce__(self) -> Any:
        return self.__reduce_ex__(2)

    def __dask_tokenize__(self) -> Any:
        _distributed.register(Array, reach)
        # The place alone: what is written to the array later does not make it another one.
        memory = memory_of(self)
        where = (memory.inode, address(self) - memory.address) if memory is not None else self.tobytes()
        return "forebay.share", where, self.shape, self.strides, str(self.dtype)


def create(shape: tuple[int, ...], dtype: np.dtype[Any], name: Optional[str]) -> Array:
    """An array of zeros in a memory object of its own."""
    check_dtype(dtype)
    if min(shape, default=0) < 0:
        raise ValueError(f"an array cannot have the shape {shape}: lengths are 0 or more")
    text = repr((shape, _described(dtype))).encode()
    begin = _begin(len(text))
    head = HEAD.pack(VERSION, len(text)) + text
    segment = _memory.create(name, head, begin + math.prod(shape) * dtype.itemsize)
    return keep_temporaries(place(segment, begin, shape, dtype))


def attach(name: str, shape: Optional[tuple[int, ...]], dtype: Optional[np.dtype[Any]]) -> Array:
    """The array of this name, of this shape and type where they are given."""
    segment = _memory.attach(name)
    version, length = HEAD.unpack(segment[_memory.COUNT_BYTES : _TEXT].ljust(HEAD.size))
    if version != VERSION:
        raise ShareError(f"{name!r} is no array of this version; use the same version of forebay everywhere")
    has_shape, described = ast.literal_eval(segment[_TEXT : _TEXT + length].decode())
    has_dtype = _of_description(described)
    if shape is not None and shape != has_shape:
        raise ShareError(f"the array {name!r} has the shape {has_shape}, not {shape}; attach it without a shape")
    if dtype is not None and dtype != has_dtype:
        raise ShareError(f"the array {name!r} is of {has_dtype}, not {dtype}; attach it without a dtype")
    return keep_temporaries(place(segment, _begin(length), has_shape, has_dtype))


def _begin(length: int) -> int:
    """Where the data are behind a text of so many bytes."""
    return -(-(_TEXT + length) // ALIGNMENT) * ALIGNMENT


def element_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """The type of an element. Texts without a length have one letter, as in arrays of zeros of NumPy."""
    kind = np.dtype(dtype)
    return kind if kind.itemsize or kind.kind not in "SU" else np.empty(0, kind).dtype


def _described(dtype: np.dtype[Any]) -> Any:
    """A type as a literal of Python, whatever its fields are called and wherever they lie."""
    if dtype.subdtype:
        return _described(dtype.subdtype[0]), dtype.subdtype[1]
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    fields = [dtype.fields[name] for name in dtype.names]
    return {
        "names": list(dtype.names),
        "formats": [_described(field[0]) for field in fields],
        "offsets": [field[1] for field in fields],
        "titles": [field[2] if len(field) > 2 else None for field in fields],
        "itemsize": dtype.itemsize,
    }


def _of_description(described: Any) -> np.dtype[Any]:
    if isinstance(described, tuple):
        return np.dtype((_of_description(described[0]), described[1]))
    if isinstance(described, str):
        return np.dtype(described)
    return np.dtype({**described, "formats": [_of_description(one) for one in described["formats"]]})


def place(
    memory: Any,
    offset: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: Optional[tuple[int, ...]] = None,
    axes: int = 1,
    chunk: int = 1,
    kind: type[Array] = Array,
) -> Array:
    """An array in memory that is mapped."""
    _distributed.register(Array, reach)
    array = kind(shape, dtype, memory, offset, strides)
    if (axes, chunk) != (1, 1):
        array._axes, array._chunk = axes, chunk
    return array


#: The largest block that malloc(3) has seen freed here.
_freed = 1 << 17


def keep_temporaries(array: Array) -> Array:
    """Lets malloc(3) keep the memory of temporaries between expressions; the array itself.

    NumPy reuses a temporary within an expression only if all operands are plain ndarrays, so expressions with arrays have
    several. malloc gives freed memory back to the kernel, and takes it anew page by page, unless it has seen a block as
    large freed.
    """
    global _freed
    block = min(TEMPORARIES * array.nbytes, KEPT_MAX)
    if block > _freed:
        np.empty(block, np.uint8)
        _freed = block
    return array


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Raises TypeError where elements are no plain data."""
    if dtype.hasobject or dtype.subdtype:
        raise TypeError(f"elements of {dtype} cannot be shared; use numbers, texts or structures of them")


def memory_of(array: Any) -> Union[Segment, JobMemory, None]:
    """The shared memory that an array lies in."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, (Segment, JobMemory)) else None


def reach(array: Any) -> Optional[_distributed.Reach]:
    """Where processes find the memory of an array, if any do."""
    memory = memory_of(array) if array.size else None
    if memory is None:
        return None
    is_of_machine = isinstance(memory, Segment) or memory.is_one
    return _distributed.Reach.MACHINE if is_of_machine else _distributed.Reach.JOB


class Job(NamedTuple):
    """The job that this process is a host of."""

    #: As an ndarray of bytes.
    memory: npt.NDArray[np.uint8]
    #: What its arrays are.
    kind: type[Array]
    #: Whether this process may use the memory: the host may have left, or have been forked.
    is_usable: Callable[[], bool]
    #: An array that lies there, which this host allocates alone.
    allocate: Callable[[tuple[int, ...], np.dtype[Any]], Array]


_job: Optional[Job] = None


def set_job(job: Job) -> None:
    """Arrays of this job that are unpickled here are at their place in this memory."""
    global _job
    _job = job


def job_of_several() -> Optional[Job]:
    """The job that this process is a host of, if it has several memories."""
    is_of_several = _job is not None and reach(_job.memory) is _distributed.Reach.JOB
    return _job if _job is not None and is_of_several and _job.is_usable() else None


class Gone(NDArrayOperatorsMixin):
    """What a pickled array becomes where its memory cannot be had: each use of it raises `ShareError`.

    To unpickle it raises nothing. Pools of processes unpickle outside of the task, and a worker would end there.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __reduce__(self) -> Any:
        return Gone, (self._reason,)

    def __repr__(self) -> str:
        return f"<shared array that cannot be had: {self._reason}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Libraries look for those without use of the array.
            raise AttributeError(name)
        return self._raise()

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise ShareError(self._reason)

    __array__ = __array_ufunc__ = __array_function__ = __getitem__ = __setitem__ = _raise
    __len__ = __iter__ = __contains__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = _raise


def _attached(handle: tuple[Any, ...], offset: int, *description: Any) -> Union[Array, Gone]:
    """What a pickled array becomes."""
    known = Handle(*handle)
    shape, strides, dtype, axes, chunk, is_writeable = description
    try:
        memory, kind = find(known)
    except ShareError as error:
        return Gone(str(error))
    array = keep_temporaries(place(memory, offset, shape, dtype, strides, axes, chunk, kind))
    array.flags.writeable = is_writeable
    return array


def find(handle: Handle) -> tuple[Any, type[Array]]:
    """The memory of a handle, and what arrays in it are. Raises `ShareError` if this process cannot have it."""
    if _job is not None and _is_of(_job, handle) and _job.is_usable():
        return _job.memory, _job.kind
    return _memory.attach_handle(handle), Array


def _is_of(job: Job, handle: Handle) -> bool:
    memory = memory_of(job.memory)
    return memory is not None and memory.handle()[::2] == handle[::2]


def address(array: npt.NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
