"""Checks of forebay.share, by all hosts of a job together, or by one alone."""

import copy
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time

import coordination
import numpy as np
from coordination import raises

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
PATIENCE_S = 60
FAULTS = ("read faults", "write faults")
#: Each host is a machine of its own; there are several machines.
ALONE = os.environ.get("FOREBAY_SHARE_SEPARATE") == "1"
SEPARATE = ALONE or "FOREBAY_SHARE_MACHINE" in os.environ


def filled(shape, dtype, seed):
    """Values of any type."""
    dtype = np.dtype(dtype)
    values = np.random.default_rng(seed).integers(0, 2, (*shape, dtype.itemsize), np.uint8)
    return values.view(dtype)[..., 0]


def what_one_host_writes_the_others_read(host):
    for shape, dtype, granularity, chunk in KINDS:
        for number, placement in enumerate(["blocks", "cyclic", "copies", host.hosts - 1]):
            array = host.array(shape, dtype, granularity=granularity, chunk=chunk, placement=placement)
            assert array.shape == shape and array.dtype == np.dtype(dtype)
            zeros = np.zeros(shape, dtype)
            assert array.ndim == zeros.ndim and array.nbytes == zeros.nbytes and array.size == zeros.size
            assert np.array_equal(array.to_numpy(), zeros)
            host.barrier()
            wanted = filled(shape, dtype, number)
            axes = len(shape) if granularity == "element" else 1
            places = list(np.ndindex(shape[:axes]))
            assert len(array) == shape[0] and array.part_shape == shape[axes:]
            for place in places[host.rank :: host.hosts]:
                array[place] = wanted[place]
            host.barrier()
            assert np.array_equal(array.to_numpy(), wanted)
            assert all(np.array_equal(row, values) for row, values in zip(array, wanted))
            for place in places:
                part = array[place]
                assert np.array_equal(part, wanted[place])
                if axes < len(shape):
                    assert isinstance(part, np.ndarray) and part.shape == array.part_shape
                    assert part.flags.c_contiguous and part.flags.aligned and part.flags.writeable
            chunks = [np.asarray(array.chunk(index)) for index in range(array.chunks)]
            assert np.array_equal(np.concatenate(chunks).reshape(shape), wanted)
            host.barrier()


#: What programs do with arrays: each changes it, or returns something.
OPERATIONS = [
    lambda x: x[2:5],
    lambda x: x[-1, 2],
    lambda x: x[1, ...],
    lambda x: x[::-2, 1:3],
    lambda x: x[[4, 1, 4]],
    lambda x: x[x > 40],
    lambda x: x[:, None, 2],
    lambda x: x.T[1],
    lambda x: x.sum(),
    lambda x: x.mean(axis=0),
    lambda x: x.max(axis=1, keepdims=True),
    lambda x: np.cumsum(x, axis=1),
    lambda x: x.astype(np.int16),
    lambda x: x.reshape(-1)[7],
    lambda x: x.tolist(),
    lambda x: x.copy()[3],
    lambda x: x @ x.T,
    lambda x: np.dot(x[0], x[1]),
    lambda x: -x + 2 * x**2 - x / 4,
    lambda x: 3 - x,
    lambda x: x == x[1],
    lambda x: np.where(x > 9, x, 0),
    lambda x: np.concatenate([x, x[:2]]),
    lambda x: np.sort(x, axis=0),
    lambda x: (x.argmax(), x.any(), bool((x < 0).all()), 40.0 in x, len(x), x.nbytes),
    lambda x: [float(row[0]) for row in x],
    lambda x: np.linalg.norm(x),
    lambda x: np.asarray(x)[2],
    lambda x: np.array(x, dtype=np.float32),
    lambda x: pickle.loads(pickle.dumps(x))[3],
    lambda x: copy.deepcopy(x)[2],
    lambda x: x.__setitem__(slice(2, 5), 1),
    lambda x: x.__setitem__(0, x[5]),
    lambda x: x.__setitem__((slice(None), 1), np.arange(len(x))),
    lambda x: x.__setitem__((slice(1, 4), slice(None, None, 2)), x[0, 0]),
    lambda x: x.__setitem__((2, -1), 11),
    lambda x: x.__setitem__([3, 0], [[5], [6]]),
    lambda x: x.__setitem__(x > 12, -3),
    lambda x: x.__setitem__(..., x * 2),
    lambda x: x.__iadd__(1),
    lambda x: x[3:].__imul__(2),
    lambda x: x[1].__isub__(0.5),
    lambda x: np.add(x, x[2], out=x),
    lambda x: np.negative(x[::2], out=x[::2]),
    lambda x: np.clip(x, -4, 50, out=x),
    lambda x: np.add.at(x, [1, 1], 3),
    lambda x: np.copyto(x[4:6], 8),
    lambda x: np.put(x, [0, 9], [4, 5]),
    lambda x: x.sort(),
    lambda x: x.assign(range(x.shape[1]), 1, 3) if hasattr(x, "assign") else x.__setitem__(slice(1, 3), range(x.shape[1])),
    lambda x: x.fill(2),
    lambda x: add_to(x, x > 12),
    lambda x: add_to(x, [1, 2, 1]),
    lambda x: add_to(x, (slice(1, 4), 0)),
    lambda x: add_to(x, (slice(None, None, 2), [0, 3])),
    lambda x: add_to(x, (Ellipsis, slice(0, 2))),
    lambda x: add_to(x, None),
    lambda x: x[1:4, 2].__imul__(3),
    lambda x: (x[1:4, 2] + x[1:4, 3]).__iadd__(1),
    lambda x: x[[1, 2]].__iadd__(1),
]


def add_to(array, index):
    array[index] += 1
    array[index] -= array[2, 0]



def arrays_behave_as_those_of_numpy(host):
    rows, elements = {"granularity": "row"}, {"granularity": "element"}
    kinds = [
        ((12, 6), {}),
        ((9, 700), {}),
        ((7, 512), {"chunk": 2}),
        ((12, 6), rows),
        ((7, 700), rows),
        ((9, 100), {"chunk": 3, **rows}),
        ((8, 6), elements),
        ((7, 30), {"chunk": 4, **elements}),
    ]
    for shape, kind in kinds:
        array = host.array(shape, placement="cyclic", **kind)
        plain = np.arange(float(np.prod(shape))).reshape(shape) % 97
        for number, operation in enumerate(OPERATIONS):
            if host.rank == number % host.hosts:
                if number == 0:
                    array[...] = plain
                assert_equal(operation(array), operation(plain), (number, shape, kind))
            else:
                operation(plain)
            host.barrier()
            if host.rank == (number + 1) % host.hosts:
                assert np.array_equal(array, plain), (number, shape, kind)
            host.barrier()


def assert_equal(result, wanted, what):
    if isinstance(wanted, (tuple, list)):
        assert list(result) == list(wanted), what
    elif wanted is None:
        assert result is None, what
    else:
        assert np.array_equal(result, wanted) and np.shape(result) == np.shape(wanted), (what, result, wanted)


def long_vectors_take_the_memory_that_they_have(host):
    vector = host.array(1_000_000)
    row = host.array((1, 200_000))
    for array in (vector, row):
        mine = np.array_split(np.arange(array.size), host.hosts)[host.rank]
        array.reshape(-1)[mine[0] : mine[-1] + 1] = mine
        host.barrier()
        assert array.sum() == array.size * (array.size - 1) // 2
        host.barrier()
    left = host.left()
    host.array(100)
    assert 0 < left - host.left() <= 1 << 12
    host.barrier()


def all_hosts_free_an_array_and_use_the_memory_again(host):
    rows = host.left() // 16 // 4096
    for turn in range(20):
        array = host.array((rows, 512), chunk=64)
        assert not array[:: rows - 1].to_numpy().any()
        host.barrier()
        array[turn] = array[-1] = host.rank + 1
        host.free_together(array)
        raises(ShareError, "free already", host.free_together, array)
    for granularity in (None, "row", "element"):
        left = host.left()
        for _ in range(2):
            host.free_together(host.array((50, 3), granularity=granularity))
        assert left - host.left() <= 50 * 4096


def a_host_allocates_alone_and_another_one_frees(host):
    addresses = host.array(host.hosts, np.int64)
    mine = host.allocate((3, 5), np.int32)
    assert not mine.any()
    mine[1] = host.rank + 7
    addresses[host.rank] = host.address(mine)
    host.barrier()
    left = host.allocate_left()
    other = (host.rank + 1) % host.hosts
    theirs = host.at(int(addresses[other]), (3, 5), np.int32)
    assert theirs.sum() == 5 * (other + 7)
    for wrong in ((100, 100), (1, 5000)):
        try:
            host.at(int(addresses[other]), wrong)
            raise AssertionError("more than there is")
        except share.ShareError as error:
            assert "not all of one allocation" in str(error)
    host.barrier()
    host.free(theirs)
    for wrong in (theirs, mine[1:], addresses):
        try:
            host.free(wrong)
            raise AssertionError("freed twice")
        except share.ShareError as error:
            assert "begins at" in str(error)
    host.barrier()
    assert host.allocate_left() > left
    try:
        host.allocate(1 << 40)
        raise AssertionError("too much")
    except share.ShareError as error:
        assert "do not fit" in str(error)
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
        array = host.array(shape, granularity="row", chunk=chunk)
        if SEPARATE:
            raises(ValueError, "distance", array.as_ndarray)
            raises(ValueError, "lie apart", array.__array__, copy=False)
            raises(ValueError, "read-only", array.T.__setitem__, 0, 1)
            raises(AttributeError, "see to_numpy()", getattr, array, "view")
            raises(ValueError, "read-only", array[1:4, 0].__setitem__, 0, 1)
            raises(ValueError, "read-only", array[1:4, 0][1:].__iadd__, 1)
            raises(TypeError, "complex", array[1:4, 0].__iadd__, 1j)
        else:
            assert array.as_ndarray().shape == shape


def no_copy_of_padded_rows_is_written_for_the_memory(host):
    array = host.array((10, 6), placement=0)
    for flat in (array.reshape(-1), array.reshape(5, 12), array.ravel(), np.reshape(array, 60), np.ravel(array)):
        if SEPARATE:
            raises(ValueError, "read-only", flat.__setitem__, ..., 1)
        assert flat.size == 60 and not flat.any()
    host.barrier()
    if host.rank == 0:
        array.reshape(10, 2, 3)[1, 1] = 5
        array.T.reshape(-1)[0] = array.flatten()[0] = 7
        assert array.sum() == 15
    host.barrier()


def an_array_in_parts_is_written_as_one_of_numpy(host):
    writes = [
        lambda a: np.clip(a, 3, 9, a),
        lambda a: np.copyto(dst=a, src=5),
        lambda a: np.copyto(a, 5, where=a > 7),
        lambda a: np.cumsum(a, 0, None, a),
        lambda a: np.take(a, list(range(len(a)))[::-1], 0, a),
        lambda a: np.put(a=a, ind=[2, 7], v=[1, 2]),
        lambda a: np.put_along_axis(arr=a, indices=np.array([[1]] * len(a)), values=9, axis=1),
        lambda a: np.fill_diagonal(a=a, val=3),
        lambda a: np.nan_to_num(a, copy=False, nan=3),
        lambda a: np.add(a, 1, out=a, where=a > 4),
        lambda a: np.add.at(a, ([1, 1], [2, 2]), 1),
        lambda a: np.divmod(a, 3, out=(a, None)),
        lambda a: a.mean(axis=0, out=a[0]),
        lambda a: a.__iadd__(a[1]),
    ]
    for array in [host.array((40, 5), granularity=granularity) for granularity in ("element", "row")]:
        if host.rank == 0:
            for number, write in enumerate(writes):
                plain = np.arange(200.0).reshape(40, 5)
                plain[1, 1] = np.nan
                array[...] = plain
                results = write(plain), write(array)
                assert np.array_equal(array.to_numpy(), plain, equal_nan=True), number
                assert (results[0] is plain) == (results[1] is array), number
            if isinstance(array, np.ndarray):
                continue
            views = [array.ravel(), np.transpose(array), np.reshape(array, -1), np.flip(array), np.swapaxes(array, 0, 1)]
            for view in [*views, *np.split(array, 2), np.expand_dims(array, 0), array.real]:
                raises(ValueError, "read-only", view.fill, 1)
            for name in ("flat", "real", "shape", "dtype"):
                raises(AttributeError, "assign()", setattr, array, name, 5)
            before = array.to_numpy()
            for shuffle in (np.random.shuffle, np.random.default_rng(1).shuffle, np.random.RandomState(1).shuffle):
                raises(UserWarning, "may contain duplicates", shuffle, array)
            assert np.array_equal(array.to_numpy(), before, equal_nan=True)
    host.barrier()


def what_an_operation_does_not_change_is_not_written(host):
    array = host.array((20,), np.int64, granularity="element")

    def change_the_first(value):
        # Meanwhile another thread, or host, writes to another part.
        array[5] = 7
        return value + (value == 3)

    if host.rank == 0 and isinstance(array, share.Parts):
        array[0] = 3
        np.frompyfunc(change_the_first, 1, 1)(array, out=array, casting="unsafe")
        assert (array[0], array[5]) == (4, 7) and array.to_numpy().sum() == 11
    host.barrier()


def hosts_that_write_neighbours_do_not_disturb_each_other(host):
    for granularity in (None, "row"):
        array = host.array((64, 8), placement="cyclic", granularity=granularity)
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
        host.barrier()


def an_operation_asks_for_what_it_needs_at_once(host):
    array = host.array((64, 1000), placement=0)
    if host.rank == 0:
        array[...] = 1
    host.barrier()
    host.stats()
    assert array.sum() == 64000
    counts = host.stats()
    if ALONE and host.rank > 0:
        # A thread may come to a row before it has arrived, and fault, but asks for none by itself.
        assert counts["prefetches"] == 64, counts
    elif not SEPARATE:
        assert all(counts[name] == 0 for name in (*FAULTS, "prefetches")), counts
    host.barrier()


def system_calls_take_arrays(host):
    """Of any size, whatever part of them is present."""
    for shape, kind in [((5, 40000), {}), ((8, 512), {}), ((3, 50), {}), ((4, 400_000), {"chunk": 2})]:
        array = host.array(shape, placement=host.hosts - 1, **kind)
        if host.rank == host.hosts - 1:
            array[...] = np.arange(array.size).reshape(shape)
        host.barrier()
        if host.rank == 0:
            whole, row = array.to_numpy(), array[2]
            host.touch(array[0])
            with open(os.memfd_create("copy"), "wb+", buffering=0) as file:
                written = file.write(row)
                assert written == row.nbytes and os.pread(file.fileno(), row.nbytes, 0) == row.tobytes()
                if isinstance(array, np.ndarray) and array.flags.c_contiguous:
                    assert os.pwrite(file.fileno(), array, 0) == array.nbytes
                    assert os.pread(file.fileno(), array.nbytes, 0) == whole.tobytes()
                assert os.pwritev(file.fileno(), [array[1], b"!", row], 0) == 2 * row.nbytes + 1
                assert os.preadv(file.fileno(), [row, bytearray(1), array[0]], 0) == 2 * row.nbytes + 1
                assert np.array_equal(row, whole[1]) and np.array_equal(array[0], whole[2])
                file.seek(0)
                array.tofile(file)
                assert file.tell() == array.nbytes
                assert os.pread(file.fileno(), array.nbytes, 0) == array.to_numpy().tobytes()
                file.seek(0)
                np.save(file, array[1])
                file.seek(0)
                assert np.array_equal(np.load(file), whole[1])
                file.seek(0)
                pickle.dump(np.asarray(row), file, protocol=5)
                file.seek(0)
                assert np.array_equal(pickle.load(file), whole[1])
        host.barrier()
        if host.rank == 0:
            row = array[1]
            with open("/dev/zero", "rb", buffering=0) as zero:
                assert zero.readinto(row) == row.nbytes
            assert not row.any()
            here, there = socket.socketpair()
            with here, there:
                sender = threading.Thread(target=here.sendall, args=(array[0],))
                sender.start()
                got, view = 0, memoryview(row).cast("B")
                while got < row.nbytes:
                    got += there.recv_into(view[got:])
                sender.join()
            assert np.array_equal(row, whole[2])
        host.barrier()


def a_system_call_has_its_memory_while_others_want_it(host):
    array = host.array((4, 40000), placement=0)
    done = host.array(1, np.int64)
    if host.rank == host.hosts - 1:
        with open("/dev/zero", "rb", buffering=0) as zero:
            for _ in range(100):
                assert zero.readinto(array[3]) == array[3].nbytes
        done[0] = 1
    else:
        deadline = time.monotonic() + PATIENCE_S
        while done[0] == 0:
            assert array[3, 17] == 0 and time.monotonic() < deadline
            time.sleep(0.0002)
    host.barrier()


def memory_is_asked_for_and_sent_before_it_is_used(host):
    array = host.array((40, 30), placement=0)
    if host.rank == 0:
        array.assign(np.arange(1200.0).reshape(40, 30))
    host.barrier()
    host.prefetch(array)
    host.prefetch(array[7, 3:9], write=True)
    host.touch(array[7, ::3])
    host.touch(array.chunk(2))
    host.touch(array[3:9])
    host.push(array)
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
    for kind in ({}, {"granularity": "row"}, {"granularity": "element"}):
        array = host.array((10, 4), **kind)
        raises(IndexError, "index 10 is out of bounds for axis 0", array.__getitem__, 10)
        raises(IndexError, "index -11", array.__setitem__, -11, 0)
        raises(IndexError, "index 4 is out of bounds", array.__getitem__, (0, 4))
        raises(IndexError, "", array.__getitem__, 1.5)
        raises(IndexError, "too many indices", array.__getitem__, (1, 2, 3))
        raises(IndexError, "there is no chunk", array.chunk, 40)
        raises(ValueError, "broadcast", array.assign, np.zeros((3, 4)))
    raises(TypeError, "cannot be shared", host.array, 3, object)
    raises(ValueError, "no bytes", host.array, (3, 0))
    raises(ValueError, "no bytes", host.array, ())
    raises(ValueError, "granularity", host.array, 3, granularity="page")
    raises(ValueError, "at least 1", host.array, 3, chunk=0)
    raises(ValueError, "placement", host.array, 3, placement="here")
    raises(ValueError, "no host", host.array, 3, placement=host.hosts)
    raises(ValueError, "no host", host.block, 3, -1)
    raises(ValueError, "units is -1", host.semaphore, -1)
    raises(ShareError, "do not fit", host.array, 1 << 40)
    raises(OverflowError, "", host.lock(-1).acquire)
    assert host.array([3, 2]).shape == (3, 2) and host.array(np.int64(3)).shape == (3,)
    raises(ShareError, "joined already", share.join)
    blocks = [host.block(1000, rank) for rank in range(host.hosts)]
    assert [index for block in blocks for index in block] == list(range(1000))
    assert host.block(1000) == blocks[host.rank]
    host.barrier()


def hosts_that_want_different_arrays_are_told(host):
    if host.hosts == 1:
        return
    odd = host.rank == 1
    for mine, its in [(((4, 3),), ((3, 4),)), ((6, "f8"), (6, "i8")), (((10, 10),), ((10, 11),))]:
        raises(ShareError, f"host {host.rank} of {host.hosts} called array((", host.array, *(mine if odd else its))
    raises(ShareError, "called array((6,), int64, granularity=None, chunk=1, placement=", host.array, 6, int, placement=int(odd))
    if odd:
        raises(ShareError, "called barrier()", host.barrier)
    else:
        raises(ShareError, "called array(", host.array, 5)
    host.barrier()


def programs_may_use_the_names_of_version_0_1(host):
    assert host.count == host.hosts and list(host.counts()) == list(host.stats())


def a_child_that_is_forked_is_no_host(host):
    array = host.array(host.hosts, np.int64)
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
        array[host.rank] = 1
        os._exit(0)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == (-signal.SIGSEGV if SEPARATE else 0), ended
    assert array[host.rank] == (0 if SEPARATE else 1)
    host.barrier()


def workers_of_a_host_map_its_arrays(host):
    """A process that is no host gets an array of one machine by its place, and learns that it gets none between machines."""
    array = host.array((host.hosts, 1000))
    array[host.rank] = host.rank + 1
    program = "import pickle, sys; a = pickle.load(sys.stdin.buffer); print(a[-1].sum()); a[...] = 9"
    line = [sys.executable, "-c", program]
    host.barrier()
    if host.rank == 0:
        job = {name: value for name, value in os.environ.items() if not name.startswith(("FOREBAY", "LD_"))}
        for passed in (array.to_numpy(), array):
            done = subprocess.run(line, input=pickle.dumps(passed), capture_output=True, env=job)
            if passed is array and SEPARATE:
                assert done.returncode == 1 and b"is no host of that job; pass it array.to_numpy()" in done.stderr
            else:
                assert float(done.stdout) == 1000 * host.hosts, done.stderr
        assert (array == (9 if not SEPARATE else np.arange(1, host.hosts + 1)[:, None])).all()
    host.barrier()
    again = pickle.loads(pickle.dumps(array[1:]))
    assert np.array_equal(again, array[1:]) and (host.hosts < 2 or np.may_share_memory(again, array))
    child = os.fork()
    if child == 0:
        found = pickle.loads(pickle.dumps(array))
        if SEPARATE:
            raises(ShareError, "is no host of that job", lambda: found.sum())
        else:
            assert found.sum() == array.sum()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    host.barrier()


def an_array_that_one_host_pickles_is_the_same_for_all(host):
    rows, parts = host.array((host.hosts, 1000)), host.array((8, 4), granularity="element")
    pickled = np.zeros(8192, np.uint8)
    if host.rank == 0:
        made = share.array((host.hosts, 50), np.int64)
        text = pickle.dumps((made, rows[:, 1:], parts[3:5]))
        pickled[: len(text)] = np.frombuffer(text, np.uint8)
    found, columns, some = pickle.loads(host.team().broadcast(pickled, 0).tobytes())
    host.barrier()
    for round in range(1, 20):
        found[host.rank] = columns[host.rank] = round * (host.rank + 1)
        if host.rank == host.hosts - 1:
            some[1, 2] = round
        host.barrier()
        wanted = round * np.arange(1, host.hosts + 1)
        assert (found[:, 7] == wanted).all() and (rows[:, 999] == wanted).all() and parts[4, 2] == round
        host.barrier()
    assert type(found) is type(rows) and not rows[:, 0].any()
    if SEPARATE and host.rank == 0:
        left = host.allocate_left()
        host.free(made)
        assert host.allocate_left() > left
    host.barrier()


CHECKS = [
    what_one_host_writes_the_others_read,
    arrays_behave_as_those_of_numpy,
    long_vectors_take_the_memory_that_they_have,
    all_hosts_free_an_array_and_use_the_memory_again,
    a_host_allocates_alone_and_another_one_frees,
    ranges_are_copied_and_assigned,
    parts_are_the_memory_itself,
    some_arrays_are_one_ndarray,
    no_copy_of_padded_rows_is_written_for_the_memory,
    an_array_in_parts_is_written_as_one_of_numpy,
    what_an_operation_does_not_change_is_not_written,
    hosts_that_write_neighbours_do_not_disturb_each_other,
    an_operation_asks_for_what_it_needs_at_once,
    *coordination.CHECKS,
    system_calls_take_arrays,
    a_system_call_has_its_memory_while_others_want_it,
    memory_is_asked_for_and_sent_before_it_is_used,
    mistakes_are_told,
    hosts_that_want_different_arrays_are_told,
    programs_may_use_the_names_of_version_0_1,
    a_child_that_is_forked_is_no_host,
    workers_of_a_host_map_its_arrays,
    an_array_that_one_host_pickles_is_the_same_for_all,
]

if __name__ == "__main__":
    with share.join(size=64 << 20, views=16) as host:
        assert 0 <= host.rank < host.hosts
        for check in CHECKS:
            check(host)
            host.barrier()
    raises(ShareError, "not a host", host.barrier)
    raises(ShareError, "not a host", host.leave)
