"""Checks of forebay.share, by all hosts of a job together, or by one alone."""

import os
import signal
import threading

import numpy as np

from forebay import share
from forebay.share import ShareError

KINDS = [
    ((1000,), np.int32, "row", 1),
    ((1000,), np.int32, "row", 7),
    ((37, 3), float, "row", 1),
    ((37, 3), float, "row", 5),
    ((37, 3), float, "element", 1),
    ((37, 3), float, "element", 4),
    ((5, 600), np.int64, "row", 1),
    ((5, 700), np.complex128, "row", 2),
    ((9, 4, 5, 2), np.uint16, "row", 1),
    ((3, 2, 2), [("name", "S3"), ("value", "<f8")], "element", 1),
    ((64, 2), "datetime64[s]", "row", 64),
    ((1, 1), bool, "element", 1),
]
FAULTS = ("read faults", "write faults")
SEPARATE = os.environ.get("FOREBAY_SHARE_SEPARATE") == "1"


def raises(kind, part, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        assert part in str(error), str(error)
    else:
        raise AssertionError(f"{call} raised no {kind}")


def filled(shape, dtype, seed):
    """Values of any type."""
    dtype = np.dtype(dtype)
    values = np.random.default_rng(seed).integers(0, 2, (*shape, dtype.itemsize), np.uint8)
    return values.view(dtype)[..., 0]


def what_one_host_writes_the_others_read(host):
    for number, (shape, dtype, granularity, chunk) in enumerate(KINDS):
        for placement in ("blocks", "cyclic", "copies", host.hosts - 1):
            array = host.array(shape, dtype, granularity=granularity, chunk=chunk, placement=placement)
            assert array.shape == shape and array.dtype == np.dtype(dtype)
            zeros = np.zeros(shape, dtype)
            assert array.ndim == zeros.ndim and array.nbytes == zeros.nbytes
            assert np.array_equal(array.to_numpy(), zeros)
            host.barrier()
            wanted = filled(shape, dtype, number)
            axes = 1 if granularity == "row" else len(shape)
            places = list(np.ndindex(shape[:axes]))
            assert len(array) == len(places) and array.part_shape == shape[axes:]
            for place in places[host.rank :: host.hosts]:
                array[place] = wanted[place]
            host.barrier()
            assert np.array_equal(array.to_numpy(), wanted)
            for place, part in zip(places, array):
                assert part.flags.c_contiguous and part.flags.aligned and part.flags.writeable
                assert part.shape == array.part_shape and np.array_equal(part, wanted[place])
                assert np.array_equal(array[place], wanted[place])
            chunks = [array.chunk(index) for index in range(array.chunks)]
            assert np.array_equal(np.concatenate(chunks).reshape(shape), wanted)
            host.barrier()


def ranges_are_copied_and_assigned(host):
    for shape, dtype, granularity, chunk in KINDS:
        array = host.array(shape, dtype, granularity=granularity, chunk=chunk)
        wanted = filled(shape, dtype, 9)
        mine = host.block(shape[0])
        array.assign(wanted[mine.start : mine.stop], mine.start, mine.stop)
        host.barrier()
        for start, stop in [(None, None), (1, None), (None, -1), (2, 4), (1, 1), (0, shape[0] + 5), (3, 1)]:
            assert np.array_equal(array.to_numpy(start, stop), wanted[start:stop])
        assert np.array_equal(np.asarray(array), wanted)
        host.barrier()
        if host.rank == 0:
            array.assign(wanted[0])
        host.barrier()
        assert np.array_equal(array.to_numpy(), np.broadcast_to(wanted[0], shape))
        host.barrier()


def parts_are_the_memory_itself(host):
    array = host.array((20, 50), np.int64)
    if host.rank == 0:
        row = array[3]
        row[:] = np.arange(50)[::-1]
        row.sort()
        row += 1
        array[-1, 10:20] = row[10:20] * 2
        array[4][0] = np.dot(row, row)
        np.multiply(row, 3, out=array[5])
    host.barrier()
    assert np.array_equal(array[3], np.arange(1, 51))
    assert np.array_equal(array[19, 10:20], np.arange(22, 42, 2)) and array[19, 9] == 0
    assert array[4, 0] == (np.arange(1, 51) ** 2).sum() and array[5, -1] == 150
    host.barrier()


def some_arrays_are_one_ndarray(host):
    whole = [
        ((6, 512), float, "row", 1),
        ((6, 1000), float, "row", 1),
        ((3, 2, 1000), float, "row", 1),
        ((2, 3), float, "element", 1),
        ((100, 3), np.int8, "row", 100),
        ((4, 1024), float, "row", 2),
        ((1, 4), float, "row", 1),
    ]
    for shape, dtype, granularity, chunk in whole:
        array = host.array(shape, dtype, granularity=granularity, chunk=chunk)
        ndarray = array.as_ndarray()
        assert ndarray.shape == shape
        if host.rank == host.hosts - 1:
            ndarray[...] = filled(shape, dtype, 5)
        host.barrier()
        assert np.array_equal(array.to_numpy(), filled(shape, dtype, 5)) and np.array_equal(ndarray, array)
        host.barrier()
    for shape, chunk in [((200, 8), 1), ((6, 700), 5)]:
        raises(ValueError, "distance", host.array(shape, chunk=chunk).as_ndarray)


def hosts_that_write_neighbours_do_not_disturb_each_other(host):
    array = host.array((64, 8), placement="cyclic")
    mine = range(host.rank, 64, host.hosts)
    for step in range(50):
        for row in mine:
            array[row][:] = step
        host.barrier()
        if step == 0:
            host.stats()
    counts = host.stats()
    faults = sum(counts[name] for name in FAULTS)
    assert faults < 10 if SEPARATE else faults == 0, counts


def a_lock_makes_a_sum_exact(host):
    total = host.array(1, np.int64)

    def add():
        for _ in range(100):
            with host.lock(3):
                total[0] += 1

    threads = [threading.Thread(target=add) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    host.barrier()
    assert total[0] == 200 * host.hosts
    raises(ShareError, "lock 99", host.lock(99).release)
    host.barrier()


def other_threads_run_while_one_waits(host):
    lock = host.lock(100 + host.rank)
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            let_go.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    threading.Timer(0.05, let_go.set).start()
    with lock:
        assert let_go.is_set()
    thread.join()


def system_calls_need_a_touch(host):
    array = host.array((2, 5000), np.uint8, placement=host.hosts - 1)
    with open("/dev/zero", "rb", buffering=0) as zero, open(os.memfd_create("copy"), "wb", buffering=0) as copy:
        if host.rank == 0 and host.hosts > 1 and SEPARATE:
            raises(OSError, "Bad address", zero.readinto, array[1])
            raises(OSError, "Bad address", copy.write, array[0])
            host.touch(array[0])
            assert copy.write(array[0]) == 5000
        host.barrier()
        if host.rank == 0:
            array[1] = 7
            host.touch(array, write=True)
            assert zero.readinto(array[1]) == 5000
    host.barrier()
    assert not array[1].any()
    host.barrier()


def memory_is_asked_for_and_sent_before_it_is_used(host):
    array = host.array((40, 30), placement=0)
    if host.rank == 0:
        array.assign(np.arange(1200.0).reshape(40, 30))
    host.barrier()
    host.prefetch(array)
    host.prefetch(array[7, 3:9], write=True)
    host.touch(array[7, ::3])
    host.touch(array.chunk(2).T)
    host.barrier()
    if host.rank == 0:
        array[1] = 5
        host.push(array)
    host.barrier()
    assert array[39, 29] == 1199 and array[1, 1] == 5
    host.barrier()
    for call in (host.prefetch, host.push, host.touch):
        raises(ShareError, "not all of one allocation", call, np.zeros(3))
        raises(TypeError, "no array", call, [1])
        call(np.zeros(0))


def mistakes_are_told(host):
    rows = host.array((10, 4))
    elements = host.array((10, 4), granularity="element")
    raises(IndexError, "index 10 is out of bounds for axis 0", rows.__getitem__, 10)
    raises(IndexError, "index -11", rows.__setitem__, -11, 0)
    raises(IndexError, "axis 1", elements.__getitem__, (0, 4))
    raises(IndexError, "give 2 indices", elements.__getitem__, 0)
    raises(TypeError, "to_numpy()", rows.__getitem__, slice(2, 4))
    raises(TypeError, "whole number", rows.__getitem__, 1.5)
    raises(IndexError, "chunk 10", rows.chunk, 10)
    raises(ValueError, "broadcast", rows.assign, np.zeros((3, 4)))
    raises(ValueError, "as_ndarray", rows.__array__, copy=False)
    raises(TypeError, "cannot be shared", host.array, 3, object)
    raises(ValueError, "no bytes", host.array, (3, 0))
    raises(ValueError, "no bytes", host.array, ())
    raises(ValueError, "granularity", host.array, 3, granularity="page")
    raises(ValueError, "at least 1", host.array, 3, chunk=0)
    raises(ValueError, "placement", host.array, 3, placement="here")
    raises(ValueError, "no host", host.array, 3, placement=host.hosts)
    raises(ValueError, "no host", host.block, 3, -1)
    raises(ShareError, "do not fit", host.array, 1 << 40)
    raises(OverflowError, "", host.lock(-1).acquire)
    assert host.array([3, 2]).shape == (3, 2) and host.array(np.int64(3)).shape == (3,)
    raises(ShareError, "joined already", share.join)
    blocks = [host.block(1000, rank) for rank in range(host.hosts)]
    assert [index for block in blocks for index in block] == list(range(1000))
    assert host.block(1000) == blocks[host.rank]
    host.barrier()


def a_child_that_is_forked_is_no_host(host):
    array = host.array(1)
    child = os.fork()
    if child == 0:
        for call in (host.barrier, host.leave, host.stats):
            raises(ShareError, "forked", call)
        with host:
            pass
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    child = os.fork()
    if child == 0:
        array[0] = 1
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGSEGV


CHECKS = [
    what_one_host_writes_the_others_read,
    ranges_are_copied_and_assigned,
    parts_are_the_memory_itself,
    some_arrays_are_one_ndarray,
    hosts_that_write_neighbours_do_not_disturb_each_other,
    a_lock_makes_a_sum_exact,
    other_threads_run_while_one_waits,
    system_calls_need_a_touch,
    memory_is_asked_for_and_sent_before_it_is_used,
    mistakes_are_told,
    a_child_that_is_forked_is_no_host,
]

if __name__ == "__main__":
    with share.join(size=16 << 20, views=16) as host:
        assert 0 <= host.rank < host.hosts
        for check in CHECKS:
            check(host)
            host.barrier()
    raises(ShareError, "not a host", host.barrier)
    raises(ShareError, "not a host", host.leave)
