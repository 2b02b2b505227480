"""What threads of all hosts wait with: locks, semaphores, conditions, and numbers with atomic operations."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np

from . import _share

#: How a number can be compared.
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
#: More threads than can wait.
ALL = 2**32 - 1
#: Units that are released at a time.
UNITS_MAX = 2**32 - 1


def _seconds(blocking: bool, timeout: Optional[float]) -> Optional[float]:
    """How long a thread may wait. As in `threading`, a timeout of -1 is none."""
    if timeout is None or timeout == -1:
        return None if blocking else 0.0
    if not blocking:
        raise ValueError("a timeout is for a call that waits; give it with blocking")
    return timeout


class Lock:
    """A lock that one thread of one host has at a time.

    A thread that has it and takes it again waits until Ctrl-C, unless the lock is recursive. Then it releases the lock as
    often as it took it.
    """

    def __init__(self, native: _share.Host, number: int, recursive: bool) -> None:
        self._native = native
        self._number = number
        self._recursive = recursive

    def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        """Wait until it is free, and take it. Without `blocking`, take it if no thread has it; with a `timeout`, wait for so many
        seconds at most. Whether it is taken."""
        seconds = _seconds(blocking, timeout)
        if not blocking:
            if self._recursive:
                raise ValueError("a recursive lock is taken with blocking")
            return self._native.try_lock(self._number)
        return self._native.lock(self._number, self._recursive, seconds)

    def release(self) -> None:
        """Give it up. Raises `ShareError` if no thread of this host has it."""
        self._native.unlock(self._number)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """Where threads wait, without the lock that they have, until another thread notifies them. Made by `Host.condition`."""

    def __init__(self, native: _share.Host, address: int, number: int) -> None:
        self._native = native
        self._address = address
        self._number = number
        self._lock = Lock(native, number, True)

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Give up the lock, which this thread has, wait until notified, for `timeout` seconds at most, and take it again. Look at
        what is waited for again afterwards: a thread whose time is over wakes the others too. False if the time was over."""
        return self._native.wait(self._address, self._number, timeout)

    def wait_for(self, predicate: Callable[[], Any], timeout: Optional[float] = None) -> Any:
        """Wait until `predicate()` is true, for `timeout` seconds at most. What it returned last."""
        end = None if timeout is None else time.monotonic() + timeout
        result = predicate()
        while not result and (end is None or time.monotonic() < end):
            self.wait(None if end is None else end - time.monotonic())
            result = predicate()
        return result

    def notify(self, threads: int = 1) -> None:
        """Let so many of the threads that wait go on, those that have waited longest."""
        self._native.notify(self._address, threads)

    def notify_all(self) -> None:
        """Let all threads that wait go on."""
        self._native.notify(self._address, ALL)

    def __enter__(self) -> Condition:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Semaphore:
    """Units that threads of all hosts release and take. Made by `Host.semaphore`."""

    def __init__(self, native: _share.Host, address: int) -> None:
        self._native = native
        self._address = address

    def acquire(self, blocking: bool = True, timeout: Optional[float] = None) -> bool:
        """Wait until there is a unit, and take it. Without `blocking`, take one if there is one; with a `timeout`, wait for so many
        seconds at most. Whether one is taken."""
        return self._native.acquire(self._address, _seconds(blocking, timeout))

    def release(self, units: int = 1) -> None:
        """Add units."""
        self._native.release(self._address, units)

    def __enter__(self) -> Semaphore:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class ReadWriteLock:
    """A lock that several threads have for reading or one has for writing. Made by `Host.read_write_lock`.

    A thread that waits to write goes before those that come later to read.
    """

    def __init__(self, native: _share.Host, address: int) -> None:
        self._native = native
        self._address = address

    def read(self, blocking: bool = True) -> bool:
        """Take it for reading. Without `blocking`, only if that does not wait. Whether it is taken."""
        return self._native.read_or_write(self._address, False, blocking)

    def write(self, blocking: bool = True) -> bool:
        """Take it for writing. Without `blocking`, only if that does not wait. Whether it is taken."""
        return self._native.read_or_write(self._address, True, blocking)

    def release(self) -> None:
        """Give it up, whichever way it was taken. Raises `ShareError` if no thread has it."""
        self._native.unlock_read_or_write(self._address)

    @contextmanager
    def reading(self) -> Iterator[ReadWriteLock]:
        """``with lock.reading(): ...``"""
        self.read()
        try:
            yield self
        finally:
            self.release()

    @contextmanager
    def writing(self) -> Iterator[ReadWriteLock]:
        """``with lock.writing(): ...``"""
        self.write()
        try:
            yield self
        finally:
            self.release()


class Atomic:
    """One integer of an array, with operations that no other thread of any host comes in between of. Made by `Host.atomic`.

    The operations are sequentially consistent. Elements have 1, 2, 4 or 8 bytes; those of type ``V16`` are numbers of 128
    bits without a sign. Results begin anew after the largest number. A number to set or to expect that an element cannot be
    raises OverflowError.
    """

    def __init__(self, native: _share.Host, address: int, dtype: np.dtype[Any]) -> None:
        if dtype.kind not in "iu" and dtype != np.dtype("V16"):
            raise TypeError(f"elements of {dtype} have no atomic operations; use integers, or V16 for 128 bits")
        if not dtype.isnative:
            raise TypeError(f"elements of {dtype} are in another byte order than this machine's")
        self._native = native
        self._address = address
        self._bytes = dtype.itemsize
        self._is_signed = dtype.kind == "i"

    def load(self) -> int:
        """The number."""
        return self._operate("load", 0)

    def store(self, value: int) -> None:
        """Set it."""
        self._operate("store", self._checked(value))

    def swap(self, value: int) -> int:
        """Set it. What it was."""
        return self._operate("store", self._checked(value))

    def compare_exchange(self, expected: int, value: int) -> int:
        """Set it if it is as expected. What it was."""
        return self._operate("compare", self._checked(value), self._checked(expected))

    def fetch_add(self, value: int = 1) -> int:
        """Add to it. What it was."""
        return self._operate("add", value)

    def fetch_and(self, value: int) -> int:
        """Keep the bits that `value` has. What it was."""
        return self._operate("and", value)

    def fetch_or(self, value: int) -> int:
        """Set the bits that `value` has. What it was."""
        return self._operate("or", value)

    def fetch_xor(self, value: int) -> int:
        """Change the bits that `value` has. What it was."""
        return self._operate("xor", value)

    def wait_until(self, comparison: str, number: int) -> int:
        """Wait until it is ``"=="``, ``"!="``, ``"<"``, ``"<="``, ``">"`` or ``">="`` a number, however it is stored. What it
        is then. The number may be one that an element cannot be; it is below 2**127.

        A store of another machine wakes this thread at once. So does `ring` on this machine; without that the thread looks once in
        a millisecond.
        """
        if comparison not in COMPARISONS:
            raise ValueError(f"comparison is {comparison!r}; it can be {', '.join(COMPARISONS)}")
        signed, number = self._is_signed, operator.index(number)
        return self._number(self._native.wait_until(self._address, self._bytes, signed, comparison, number))

    def ring(self) -> None:
        """Wake threads of this machine that wait for this number."""
        self._native.ring(self._address)

    def _operate(self, operation: str, value: int, expected: int = 0) -> int:
        word, expected = self._word(value), self._word(expected)
        return self._number(self._native.operate(self._address, self._bytes, operation, word, expected))

    def _checked(self, number: int) -> int:
        number = operator.index(number)
        if self._number(self._word(number)) != number:
            sign = "with" if self._is_signed else "without"
            raise OverflowError(f"{number} is no number of {8 * self._bytes} bits {sign} a sign")
        return number

    def _word(self, number: int) -> int:
        return operator.index(number) & ((1 << 8 * self._bytes) - 1)

    def _number(self, word: int) -> int:
        is_negative = self._is_signed and word >> 8 * self._bytes - 1
        return word - (1 << 8 * self._bytes) if is_negative else word
