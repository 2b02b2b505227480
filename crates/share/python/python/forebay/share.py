"""NumPy arrays in memory that processes share as if they were threads.

`array` makes an ndarray in shared memory, without a launcher. It is pickled by its place: a worker of ``multiprocessing``,
``concurrent.futures``, joblib, Dask or Ray on the same machine that gets the array maps the same memory. In a job on several
machines all hosts get it so. `attach` finds an array by its name. The memory is freed when no process has it, however the processes ended.

Every process that ``forebay share -n N -- python PROGRAM`` starts becomes a *host* by `join`; a program started alone is a
job of one host. Hosts allocate arrays together by `Host.array`, and have barriers and locks. A job can span machines.

Processes on one machine map one memory, and see stores as threads do. Between machines, and with ``--separate`` or
``--machines`` of ``forebay share``, an operation fetches what it needs before it runs; memory is sequentially consistent there. Order
conflicting accesses by locks or barriers.

What is shared at a time between machines is a *part* of an array, such as a row. Hosts that write to different parts do not
disturb each other.

System calls work on shared memory of one machine as on other memory. Between machines
``forebay share`` gives programs wrappers of ``read``, ``write`` and the like, for which all memory is present.

Threads: any thread may call any method; one thread of each host at a time allocates, or waits at a barrier. Calls that
wait let other Python threads run meanwhile. A thread that waits in an access may hold the interpreter's lock: other Python
threads of its process wait with it, for microseconds to milliseconds. Nothing that it waits for needs that lock.

Ctrl-C interrupts each call that waits, but `join` and `Host.leave`. A host that was interrupted in a barrier, or in another
call that hosts make together, makes no further such call.

Forks: a child has the arrays of its parent on one machine. It is no host, so calls fail there. Between machines it has no
arrays of the job, and an access to one ends it with SIGSEGV.

``faulthandler`` handles the same signals: enable it before `join()`.
"""

from __future__ import annotations

import atexit
import operator
import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from . import _array, _share
from ._array import Array
from ._fetched import pieces
from ._host_arrays import HostArrays
from ._parts import Parts
from ._share import ShareError
from ._sync import UNITS_MAX, Atomic, Condition, Lock, ReadWriteLock, Semaphore
from ._team import Team

__all__ = [
    "Array", "Atomic", "Condition", "Host", "Lock", "Parts", "ReadWriteLock", "Semaphore", "ShareError", "Team", "array",
    "attach", "join",
]


#: Exit status of a host that has lost another one.
EXIT_LOST = 70


def array(
    shape: Union[int, Sequence[int]], dtype: npt.DTypeLike = float, *, name: Optional[str] = None
) -> Array:
    """An array of zeros in shared memory of this machine.

    Other processes of this user get it by unpickling, by `attach` if it has a name, or by being forked.

    In a host of a job on several machines, an array without a name lies in the memory of the job: all hosts get it by unpickling. It
    is one part, as from `Host.allocate`, and there until `Host.free` or the end of the job.

    Raises `ShareError` if the name is taken, or there is not enough memory.
    """
    job = _array.job_of_several() if name is None else None
    lengths, kind = _lengths(shape), _array.element_type(dtype)
    return _array.create(lengths, kind, name) if job is None else job.allocate(lengths, kind)


def attach(
    name: str, shape: Union[int, Sequence[int], None] = None, dtype: Optional[npt.DTypeLike] = None
) -> Array:
    """The array of this name, which a process of this user on this machine has.

    Raises `ShareError` if there is none, or it has another shape or type than are given.
    """
    wanted = None if dtype is None else _array.element_type(dtype)
    return _array.attach(name, None if shape is None else _lengths(shape), wanted)


def join(size: Optional[int] = None, views: Optional[int] = None) -> Host:
    """Make this process a host, when all processes of the job call this.

    `size` is that of the shared memory in bytes. Without it the memory is as large as need be: half of what is free on each machine,
    of which no more is taken than is allocated. `views` is how many parts can share a page (1 to 256, as many as need be if not
    given); ``forebay share --size`` and ``--views`` take their places. A process can join once.

    Use it as a context manager, or call `Host.leave`; at the latest a host leaves as the interpreter ends.

    Raises `ShareError` if the hosts do not come together, or one cannot join.
    """
    return Host(_share.Host(size, views))


class Host:
    """One of the processes that share memory. Made by `join`.

    At the end of a ``with`` block it leaves. Where an exception ends the block, or the program, it waits for no other host:
    calls of the others that wait raise a `ShareError` that names it.
    """

    def __init__(self, native: _share.Host) -> None:
        self._native = native
        self._arrays = HostArrays(native)
        atexit.register(self._leave_at_exit)

    @property
    def rank(self) -> int:
        """Which host this is, from 0."""
        return self._native.rank

    @property
    def hosts(self) -> int:
        """How many hosts there are."""
        return self._native.hosts

    def array(
        self,
        shape: Union[int, Sequence[int]],
        dtype: npt.DTypeLike = float,
        *,
        granularity: Optional[str] = None,
        chunk: int = 1,
        placement: Union[str, int] = "blocks",
    ) -> Any:
        """Allocate an array of zeros. All hosts call this in the same order, with the same arguments.

        On one machine it is an `Array`, an ndarray. The other arguments matter between machines.

        `granularity` says what a part is: ``"row"``, what one index of the first axis leads to, or ``"element"``. `chunk`
        neighbouring parts are shared together: for parts that are read and written together. Without a granularity the
        parts are as small as leaves the array one ndarray: rows where these have room for pages of their own, else pages.
        With one, an array of small parts is a `Parts`, which is used like an ndarray.

        `placement` says which hosts have the parts at first: ``"blocks"`` (neighbours the same, as in `block`),
        ``"cyclic"`` (in turn), ``"copies"`` (all have a copy), or the rank of the host that has all.

        Raises `ShareError` if there is no room, or another host calls something else.
        """
        on, rank = (placement, 0) if isinstance(placement, str) else ("rank", self._rank(placement))
        if on not in ("blocks", "cyclic", "copies", "rank"):
            raise ValueError(f"placement is {on!r}; it can be 'blocks', 'cyclic', 'copies' or a rank")
        kind = _array.element_type(dtype)
        return self._arrays.allocate(_lengths(shape), kind, granularity, operator.index(chunk), (on, rank))

    def free_together(self, array: Union[Parts, npt.NDArray[Any]]) -> None:
        """Free an array that all hosts have allocated by `array`. All hosts call this, and go on when all have.

        No host may use the array or a view of it afterwards: that ends the process with SIGSEGV or SIGBUS.

        Raises `ShareError` if no such array begins there, it is free already, or another host calls something else.
        """
        self._native.free_together(array.address() if isinstance(array, Parts) else _array.address(array))

    def allocate(self, shape: Union[int, Sequence[int]], dtype: npt.DTypeLike = float) -> Array:
        """Allocate an array of zeros alone, at any time, whatever other hosts do. It is one part.

        Tell its address (`Host.address`) to other hosts in an array that they have; they get it by `at`. Any host frees it by `free`. The
        memory for such arrays is apart from that of `array`, and as large.

        Raises `ShareError` if there is no room.
        """
        return self._arrays.allocate_alone(_lengths(shape), _array.element_type(dtype))

    def address(self, array: npt.NDArray[Any]) -> int:
        """Where the first element of an array is, alike on all hosts."""
        return _array.address(array)

    def at(self, address: int, shape: Union[int, Sequence[int]], dtype: npt.DTypeLike = float) -> Array:
        """The array at an address that a host has told, which some host has allocated.

        Raises `ShareError` if there are not so many bytes of one allocation.
        """
        return self._arrays.at(operator.index(address), _lengths(shape), _array.element_type(dtype))

    def free(self, array: npt.NDArray[Any]) -> None:
        """Free an array that this host or another one has allocated alone. No host may use it afterwards.

        Raises `ShareError` if no such array begins there, or it is free already.
        """
        self._native.free(_array.address(array))

    def allocate_left(self) -> int:
        """How many bytes are left for `allocate`."""
        return self._native.malloc_left()

    def block(self, count: int, rank: Optional[int] = None) -> range:
        """The share of this host, or of host `rank`, in `count` things: the parts that begin there with ``"blocks"``."""
        return range(*self._native.block(count, self._rank(self.rank if rank is None else rank)))

    def barrier(self) -> None:
        """Wait until all hosts have come here, each with one thread."""
        self._native.barrier()

    def lock(self, number: int, *, recursive: bool = False) -> Lock:
        """Lock `number` (0 to 2**32 - 1) of the job: ``with host.lock(3): ...``

        A thread that has a recursive lock may take it once more.
        """
        return Lock(self._native, number, recursive)

    def condition(self, number: int) -> Condition:
        """A condition with lock `number`: ``with host.condition(3) as condition: condition.wait_for(...)``. All hosts call
        this."""
        return Condition(self._native, self._word(f"condition({number})"), number)

    def semaphore(self, units: int = 0) -> Semaphore:
        """A semaphore with so many units. All hosts call this."""
        units = operator.index(units)
        # Before the others wait for it.
        if not 0 <= units <= UNITS_MAX:
            raise ValueError(f"units is {units}; a semaphore has 0 to {UNITS_MAX}")
        semaphore = Semaphore(self._native, self._word(f"semaphore({units})"))
        if self.rank == 0:
            semaphore.release(units)
        self.barrier()
        return semaphore

    def read_write_lock(self) -> ReadWriteLock:
        """A lock for readers and writers. All hosts call this."""
        return ReadWriteLock(self._native, self._word("read_write_lock()"))

    def team(self, ranks: Optional[Sequence[int]] = None) -> Team:
        """The team of these hosts, in this order; without ranks that of all hosts. All hosts call this with ranks."""
        if ranks is None:
            return Team(self._native, None, range(self.hosts))
        members = [self._rank(rank) for rank in ranks]
        if not members:
            raise ValueError("a team has at least one host")
        return Team(self._native, self._native.team(members), members)

    def atomic(self, array: Union[Parts, npt.NDArray[Any]], index: Union[int, tuple[int, ...]]) -> Atomic:
        """The integer at this index of an array, for atomic operations: ``host.atomic(table, (3, 4)).fetch_add(1)``."""
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != array.ndim:
            raise IndexError(f"{index!r} chooses no element of an array with {array.ndim} axes; give an index for each")
        if isinstance(array, Parts):
            element = array.element(indices)
        elif isinstance(array, np.ndarray):
            element = array.view(np.ndarray)[(*indices, ...)]
        else:
            raise TypeError(f"{array!r} is no array; pass one that lies in shared memory")
        return Atomic(self._native, _array.address(element), element.dtype)

    def prefetch(self, array: Union[Parts, npt.NDArray[Any]], *, write: bool = False) -> None:
        """Ask for an array, a part or a piece of one, to read or write it soon, and do not wait."""
        self._native.prefetch(_pieces(array), write)

    def push(self, array: Union[Parts, npt.NDArray[Any]]) -> None:
        """Send an array, a part or a piece of one to all hosts, which can read it then without waiting."""
        self._native.push(_pieces(array))

    def touch(self, array: Union[Parts, npt.NDArray[Any]], *, write: bool = False) -> None:
        """Ask for an array, a part or a piece of one, and wait until this host may read or write it. It stays until another
        host wants it."""
        self._native.touch(_pieces(array), write)

    def left(self) -> int:
        """How many bytes of the job's memory any array of all hosts can have."""
        return self._native.left()

    def stats(self) -> dict[str, int]:
        """Figures of this host since this was last called, by name: faults, requests, messages."""
        return dict(self._native.stats())

    @property
    def count(self) -> int:
        """The name of `hosts` in version 0.1."""
        return self.hosts

    def counts(self) -> dict[str, int]:
        """The name of `stats` in version 0.1."""
        return self.stats()

    def leave(self) -> None:
        """Wait until all hosts leave, and serve them meanwhile. Locks are given up. Arrays must not be used afterwards:
        what is not there any more ends the process with SIGBUS."""
        self._native.leave()

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        # Not a second time, nor in a child that was forked.
        if not self._native.is_host():
            return
        if kind is None or (isinstance(error, SystemExit) and not error.code):
            self.leave()
        else:
            # Python tells of the exception when the block has ended, so nothing may wait here.
            self._native.fail()

    def _leave_at_exit(self) -> None:
        if not self._native.is_host():
            return
        if getattr(sys, "last_value", None) is not None:
            # The exception that ends the program, of which Python has told.
            self._native.fail()
            return
        try:
            self.leave()
        except ShareError as error:
            # Python would tell of it and end with status 0.
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os.write(2, f"forebay: host {self.rank} of {self.hosts} ends: {error}\n".encode())
            os._exit(EXIT_LOST)

    def _word(self, call: str) -> int:
        """The address of 8 bytes of zeros in a part of their own."""
        return self._native.rows(call, 1, 8, 1, "rank", 0).address

    def _rank(self, rank: int) -> int:
        rank = operator.index(rank)
        if not 0 <= rank < self.hosts:
            raise ValueError(f"there is no host {rank}: ranks are from 0 to {self.hosts - 1}")
        return rank


def _lengths(shape: Union[int, Sequence[int]]) -> tuple[int, ...]:
    lengths = shape if isinstance(shape, Sequence) else (shape,)
    return tuple(operator.index(length) for length in lengths)


def _pieces(array: Any) -> list[tuple[int, int]]:
    if isinstance(array, Parts):
        return array.pieces()
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{array!r} is no array; pass one that lies in shared memory, or part of one")
    return pieces(array)
