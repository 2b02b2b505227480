"""Memory objects that processes of one machine map, and how a process finds them.

A memory object has a label, and no file. The kernel frees it when no process has it open or mapped, however those ended.
A process finds an object in the descriptors of the other processes of its user, in /proc. It knows its own objects.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Optional
from weakref import WeakValueDictionary

import numpy as np

from ._share import ShareError, free_bytes

#: What the label of a named array begins with. The rest is the name.
PREFIX = "forebay:"
NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
#: Seconds that a process waits for another one that makes an array of the same name.
PATIENCE = 10.0
#: Seconds for which a process keeps an object that it has given a handle of, unless the handle is used before.
CERTAIN = 10.0
#: Seconds for which it keeps the object beyond that, for other users of the same handle, where there is room.
KEPT = 60.0
#: What is kept so takes at most this part of the free memory. The oldest goes first.
ROOM = 8
#: Seconds that a child of multiprocessing waits as it ends for those that have not used their handles.
PATIENCE_AT_END = 10.0
#: Where a process has more descriptors, its maps tell sooner whether it has an object: they are one file, and each descriptor is a link.
DESCRIPTORS = 128
#: Seconds between two looks whether it is used, and whether there is room for what is.
LOOK = 0.05
LOOK_ROOM = 0.25
#: At its beginning an object has the number of handles that were used. What is shared comes behind.
COUNT_BYTES = 8
#: No process can make the object longer or shorter, so no access to it fails. The last seal comes when it is complete.
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Handle(NamedTuple):
    """What other processes find a memory object by."""

    label: str
    process: int
    inode: int
    size: int


class Segment(mmap.mmap):
    """A memory object, mapped for as long as there are arrays in it."""

    label: str
    inode: int
    address: int

    def __new__(cls, descriptor: int, size: int) -> Segment:
        return super().__new__(cls, descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)

    def __init__(self, descriptor: int, size: int) -> None:
        self.label = _label(f"/proc/self/fd/{descriptor}")
        self.inode = os.fstat(descriptor).st_ino
        self.address = _address(np.frombuffer(self, np.uint8))
        _wait_at_end()

    def handle(self) -> Handle:
        """For other processes. The object is kept for them, for some seconds."""
        if self.label != JOB:
            _keep(self)
        return Handle(self.label, os.getpid(), self.inode, len(self))

    def handles_used(self) -> int:
        """How many handles were used; too few where two processes used one at the same moment."""
        return int.from_bytes(self[:COUNT_BYTES], "little")

    def note_used(self) -> None:
        """A handle is used."""
        self[:COUNT_BYTES] = (self.handles_used() + 1).to_bytes(COUNT_BYTES, "little")

    def close(self) -> None:
        """Raises BufferError: the memory goes with the last array in it."""
        raise BufferError("arrays lie in this memory; it is unmapped when the last one is gone")


class JobMemory:
    """The memory of a job, as this host maps it. It is there for as long as the process."""

    def __init__(self, address: int, size: int, name: Optional[str], job: int) -> None:
        self.address = address
        self._size = size
        self._name = name
        #: Of one memory its inode, and of several what hosts know the job by.
        self.inode = int(name.split()[2]) if name else job
        self.__array_interface__ = {"version": 3, "data": (address, False), "shape": (size,), "typestr": "|u1"}

    @property
    def is_one(self) -> bool:
        """Whether all hosts of the job map it."""
        return self._name is not None

    def handle(self) -> Handle:
        """For other processes of this machine, or where each machine has a memory of its own, for hosts of the job."""
        if self._name is None:
            return Handle(JOB_OF_SEVERAL, os.getpid(), self.inode, self._size)
        _, _, inode, size = map(int, self._name.split())
        return Handle(JOB, os.getpid(), inode, size)


#: The label of a job's memory, and what stands for it where there are several.
JOB = "forebay"
JOB_OF_SEVERAL = "forebay job"

#: Objects that this process has mapped, by inode and by label.
_mapped: WeakValueDictionary[int, Segment] = WeakValueDictionary()
_labelled: WeakValueDictionary[str, Segment] = WeakValueDictionary()


def create(name: Optional[str], head: bytes, size: int) -> Segment:
    """A new object of `size` bytes, with `head` behind the count. The rest is zeros.

    Raises `ShareError` if the name is taken, or there is not enough memory.
    """
    free = free_bytes()
    if free is not None and size > free:
        raise ShareError(f"{size} bytes of shared memory do not fit: this process can get {free} bytes; share less")
    if name is None:
        return _create(secrets.token_hex(8), head, size)
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name: use up to 200 letters, digits, dots, hyphens and underscores")
    with _turn(name):
        _let_go(PREFIX + name)
        owner = _owner(PREFIX + name)
        if owner is not None:
            raise ShareError(
                f"the name {name!r} is taken: process {owner} has an array of this name;"
                f" call attach({name!r}), or choose another name"
            )
        return _create(name, head, size)


def attach(name: str) -> Segment:
    """The object of this name. Raises `ShareError` if no process has it."""
    mapped = _labelled.get(PREFIX + name)
    return _map(PREFIX + name, None, None, None) if mapped is None else mapped


def attach_handle(handle: Handle) -> Segment:
    """The object that another process, or this one, had when it gave the handle."""
    if handle.label == JOB_OF_SEVERAL:
        raise ShareError(
            "this array lies in the memory of a job on several machines, and this process is no host of that job;"
            " pass it array.to_numpy(), which is a copy"
        )
    mapped = _mapped.get(handle.inode)
    if mapped is None or mapped.label != handle.label or len(mapped) != handle.size:
        mapped = _map(handle.label, handle.process, handle.inode, handle.size)
    if handle.label != JOB:
        mapped.note_used()
    return mapped


class _Kept(NamedTuple):
    segment: Segment
    #: So many handles are used when all that were given are.
    used: int
    since: float

    def is_used(self) -> bool:
        return self.segment.handles_used() >= self.used


#: What this process keeps for those that have a handle, by inode, the oldest first. A thread looks at it while there is any.
_kept: dict[int, _Kept] = {}
_keeping = threading.RLock()


def _keep(segment: Segment) -> None:
    _wait_at_end()
    with _keeping:
        before = _kept.pop(segment.inode, None)
        used = max(segment.handles_used(), before.used if before else 0) + 1
        is_first = not _kept and before is None
        _kept[segment.inode] = _Kept(segment, used, time.monotonic())
    if is_first:
        # As the interpreter ends there are no more threads, and all is let go of.
        with suppress(RuntimeError):
            threading.Thread(target=_look, name="forebay-share", daemon=True).start()


def _is_any_unused() -> bool:
    """Whether a process is yet to use a handle that it was given."""
    with _keeping:
        return not all(kept.is_used() for kept in _kept.values())


def _look() -> None:
    """Lets go of what is kept, when that is due."""
    while True:
        time.sleep(LOOK if _is_any_unused() else LOOK_ROOM)
        with _keeping:
            _let_go(None)
            if not _kept:
                return


def _let_go(label: Optional[str]) -> None:
    """Of what need not be kept, lets go of what has no room or no time left, or has this label."""
    with _keeping:
        now = time.monotonic()
        beyond = [kept for kept in _kept.values() if now > kept.since + CERTAIN or kept.is_used()]
        room = (free_bytes() or 0) // ROOM if beyond else 0
        for kept in reversed(beyond):
            room -= len(kept.segment)
            if room < 0 or now > kept.since + KEPT or kept.segment.label == label:
                del _kept[kept.segment.inode]


#: The process that waits as it ends.
_waiting = 0


def _wait_at_end() -> None:
    """Has a child of multiprocessing wait for those that have its handles, behind its queues: they write until it ends."""
    global _waiting
    process = sys.modules.get("multiprocessing.process")
    if _waiting != os.getpid() and process is not None and process.parent_process() is not None:
        # A program without such children does not need it.
        from multiprocessing.util import Finalize

        _waiting = os.getpid()
        Finalize(None, _wait_for_users, exitpriority=-100)


def _wait_for_users() -> None:
    deadline = time.monotonic() + PATIENCE_AT_END
    while time.monotonic() < deadline and _is_any_unused():
        time.sleep(LOOK)


def _keep_nothing() -> None:
    """In a child, which has no such thread: its parent keeps all."""
    global _keeping
    _keeping = threading.RLock()
    _kept.clear()


os.register_at_fork(after_in_child=_keep_nothing)


def _create(name: str, head: bytes, size: int) -> Segment:
    descriptor = os.memfd_create(PREFIX + name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, max(size, COUNT_BYTES + len(head)))
        os.pwrite(descriptor, head, COUNT_BYTES)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
        return _segment(descriptor)
    finally:
        os.close(descriptor)


def _map(label: str, process: Optional[int], inode: Optional[int], size: Optional[int]) -> Segment:
    found = _find(label, process, inode)
    if found is None:
        what = f"the array {label[len(PREFIX) :]!r}" if label.startswith(PREFIX) else "the memory of the job"
        raise ShareError(
            f"{what} is gone, or not of this user and machine: no process has it;"
            " keep a reference to an array until those that need it have attached"
        )
    descriptor, owner = found
    try:
        has = os.fstat(descriptor).st_size
        if size is not None and has != size:
            raise ShareError(f"the memory of process {owner} has {has} bytes, not {size}; pass the array again")
        return _segment(descriptor)
    finally:
        os.close(descriptor)


def _segment(descriptor: int) -> Segment:
    told = os.fstat(descriptor)
    mapped = _mapped.get(told.st_ino)
    if mapped is None:
        try:
            mapped = Segment(descriptor, told.st_size)
        except OSError as error:
            raise ShareError(f"{told.st_size} bytes of shared memory cannot be mapped: {error}; share less") from None
        _mapped[told.st_ino] = _labelled[mapped.label] = mapped
    return mapped


def _find(label: str, process: Optional[int] = None, inode: Optional[int] = None) -> Optional[tuple[int, int]]:
    """A descriptor of an object that another process has, and that process; first of the given one."""
    user = os.geteuid()
    for candidate in _processes(process):
        folder = f"/proc/{candidate}/fd"
        try:
            if os.stat(folder).st_uid != user:
                continue
            names = os.listdir(folder)
            if len(names) > DESCRIPTORS and not _maps(candidate, label):
                continue
        except OSError:
            continue
        for name in names:
            descriptor = _open(f"{folder}/{name}", label, inode)
            if descriptor is not None:
                return descriptor, candidate
    return None


def _owner(label: str) -> Optional[int]:
    """A process that has an object of this label."""
    if label in _labelled:
        return os.getpid()
    found = _find(label)
    if found is None:
        return None
    os.close(found[0])
    return found[1]


def _maps(process: int, label: str) -> bool:
    """Whether a process has mapped an object of this label, as all have that have it."""
    with open(f"/proc/{process}/maps", "rb") as maps:
        return f" /memfd:{label} (deleted)\n".encode() in maps.read()


def _processes(first: Optional[int]) -> Iterator[int]:
    """All but this one, which knows its own objects."""
    if first is not None and first != os.getpid():
        yield first
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) not in (first, os.getpid()):
            yield int(name)


def _open(path: str, label: str, inode: Optional[int]) -> Optional[int]:
    """Opens a descriptor of another process, if it is the object that is looked for, and complete."""
    if _label(path) != label:
        return None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    is_it = inode is None or os.fstat(descriptor).st_ino == inode
    if is_it and (label == JOB or fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & SEALS == SEALS):
        return descriptor
    os.close(descriptor)
    return None


def _label(path: str) -> Optional[str]:
    """The label of the memory object that a descriptor is open to."""
    try:
        target = os.readlink(path)
    except OSError:
        return None
    if not target.startswith("/memfd:"):
        return None
    return target[len("/memfd:") :].removesuffix(" (deleted)")


@contextmanager
def _turn(name: str) -> Iterator[None]:
    """Processes that make an array of one name take turns. The kernel ends a turn with its process."""
    deadline = time.monotonic() + PATIENCE
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as turn:
        while True:
            try:
                turn.bind(f"\0{PREFIX}{os.geteuid()}:{name}"[:107])
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ShareError(f"another process is making an array of the name {name!r}: {error}") from None
                time.sleep(0.001)
        yield


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
