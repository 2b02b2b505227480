"""Checks of arrays that processes share without a launcher: each is a check by itself."""

import concurrent.futures
import copy
import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import time

import numpy as np
from coordination import raises

from forebay import _memory, share
from forebay.share import Array, ShareError

PATIENCE_S = 60
MIB = 1 << 20


def python(program, *arguments):
    """Another program, that was not forked from this one."""
    text = f"import sys\nfrom forebay import share\nimport numpy as np\n{program}"
    return subprocess.Popen([sys.executable, "-c", text, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def answer(program, *arguments):
    process = python(program, *arguments)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    return output.decode().strip()


def add_one(array):
    array += 1
    return os.getpid()


class Pickled:
    """Is unpickled from these data, whatever it was pickled from."""

    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        return pickle.loads, (self.data,)


def made(number):
    array = share.array(3, int)
    array[...] = number
    return array


def set_row(array, row):
    array[row] = row
    return type(array).__name__, array.base is not None


def die(array):
    array[0] = 7
    os.kill(os.getpid(), signal.SIGKILL)


def until(is_so):
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def memory_objects(process="self"):
    """Labels of the memory objects that a process has mapped."""
    with open(f"/proc/{process}/maps") as maps:
        return set(re.findall(r"/memfd:(forebay:\S+)", maps.read()))


def an_array_is_an_ndarray():
    array = share.array((30, 40), np.float32)
    plain = np.zeros((30, 40), np.float32)
    assert isinstance(array, np.ndarray) and isinstance(array, Array)
    assert array.shape == plain.shape and array.dtype == plain.dtype and array.strides == plain.strides
    assert array.flags.c_contiguous and array.flags.aligned and array.flags.writeable
    for one in (array, plain):
        one += np.arange(40)
        one[3:9] *= 2
        one[[1, 5, 1]] = 4
        one[one > 30] = -1
        one.T[5] = 9
        np.add(one, one[0], out=one)
    assert np.array_equal(array, plain) and (array == plain).all()
    assert array.sum() == plain.sum() and type(array.sum()) is np.float32
    assert type(array + 1) is np.ndarray and type(array[2:4]) is Array and type(array.to_numpy()) is np.ndarray
    for shape in [(), 0, (3, 0), 5, [2, 3]]:
        assert share.array(shape).shape == np.zeros(shape).shape
    named = share.array(3, [("name", "S3"), ("value", "<f8"), ("time", "datetime64[s]")])
    named["value"] = [1, 2, 3]
    assert pickle.loads(pickle.dumps(named))["value"].tolist() == [1, 2, 3]


def mistakes_are_told():
    raises(TypeError, "cannot be shared", share.array, 3, object)
    raises(ValueError, "0 or more", share.array, -1)
    raises(ValueError, "is no name", share.array, 3, name="a/b")
    raises(ValueError, "is no name", share.array, 3, name="")
    # What control groups leave to the process is less than what the machine has.
    free, _memory.free_bytes = _memory.free_bytes, lambda: 5 * MIB
    raises(ShareError, f"this process can get {5 * MIB} bytes; share less", share.array, 6 * MIB, np.uint8)
    _memory.free_bytes = free
    raises(ShareError, "bytes; share less", share.array, 1 << 50, np.uint8)
    raises(ShareError, "is gone", share.attach, "no-such-array")


def a_pickle_is_the_place_and_not_the_data():
    array = share.array((1000, 1000))
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(array[10:20, ::-2], protocol)
        assert len(data) < 2000
        again = pickle.loads(data)
        array[10, 1] = protocol + 1
        assert again.shape == (10, 500) and again[0, -1] == array[10, 1] == protocol + 1
        assert np.may_share_memory(array, again)
    assert len(pickle.dumps(array + 1)) > array.nbytes
    assert type(pickle.loads(pickle.dumps(array.to_numpy()))) is np.ndarray
    for copied in (copy.copy(array), copy.deepcopy(array)):
        assert not np.may_share_memory(copied, array) and np.array_equal(copied, array)
    array.flags.writeable = False
    assert not pickle.loads(pickle.dumps(array)).flags.writeable


def put_made(queue, number):
    queue.put(made(number))


def what_a_child_puts_into_a_queue_is_there_when_it_ends():
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        for number in range(3):
            queue = context.Queue()
            process = context.Process(target=put_made, args=(queue, number))
            process.start()
            # It has nothing else to do then.
            until(lambda: not queue.empty())
            assert queue.get(timeout=PATIENCE_S).tolist() == [number] * 3
            process.join(PATIENCE_S)
            assert process.exitcode == 0


def one_pickle_is_for_several_readers():
    looks = []
    free = _memory.free_bytes
    label, data = (lambda array: (f"forebay:{array.name}", pickle.dumps(array)))(share.array(3))
    _memory.free_bytes = lambda: looks.append(label) or free()
    for _ in range(3):
        pickle.loads(data)[0] += 1
        seen = len(looks)
        until(lambda: len(looks) > seen + 1)
    _memory.free_bytes = free
    assert pickle.loads(data)[0] == 3
    # A name is not taken by what is kept so.
    for _ in range(2):
        pickle.loads(pickle.dumps(share.array(3, name=f"several-{os.getpid()}")))


def what_is_pickled_stays_until_it_is_unpickled():
    _memory.ROOM = 1 << 62
    array = share.array(3)
    array[...] = 5
    label, data = f"forebay:{array.name}", pickle.dumps(array)
    array = None
    array = pickle.loads(data)
    assert array.tolist() == [5, 5, 5]
    array = None
    until(lambda: label not in memory_objects())
    gone = pickle.loads(data)
    for use in (np.asarray, np.sum, len, list, lambda a: a + 1, lambda a: a[0], lambda a: a.shape, lambda a: a.fill(1)):
        for array in (gone, pickle.loads(pickle.dumps(gone)), copy.copy(gone)):
            raises(ShareError, "keep a reference", use, array)
    # The time for it ends too.
    _memory.CERTAIN = 0.0
    label, data = (lambda array: (f"forebay:{array.name}", pickle.dumps(array)))(share.array(3))
    until(lambda: label not in memory_objects())


def a_task_with_an_array_that_is_gone_fails_and_its_pool_goes_on():
    _memory.ROOM = 1 << 62
    array = share.array(3, int)
    label, data = f"forebay:{array.name}", pickle.dumps(array)
    array = None
    pickle.loads(data)
    until(lambda: label not in memory_objects())
    gone, there = Pickled(data), share.array(3, int)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        raises(ShareError, "keep a reference", pool.apply_async(add_one, (gone,)).get, PATIENCE_S)
        pool.apply_async(add_one, (there,)).get(PATIENCE_S)
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        raises(ShareError, "keep a reference", pool.submit(add_one, gone).result, PATIENCE_S)
        pool.submit(add_one, there).result(PATIENCE_S)
    assert there.tolist() == [2, 2, 2]


def workers_give_arrays_that_they_have_made():
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert [array.tolist() for array in pool.map(made, range(4))] == [[number] * 3 for number in range(4)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert [array.tolist() for array in pool.map(made, range(4))] == [[number] * 3 for number in range(4)]


def elements_are_of_any_type_of_numpy():
    kinds = [
        [("größe", "f8"), ("温度", "f8")],
        {"names": ["a", "b"], "formats": ["i4", "f8"], "offsets": [8, 0]},
        {"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 0], "itemsize": 12},
        np.zeros(1, [("a", "f8"), ("b", "i4"), ("c", "f8")])[["c", "a"]].dtype,
        [(("title", "a"), "i2", (2, 3)), ("b", [("c", ">u4")])],
        [(f"f{number}", "f8") for number in range(600)],
        "datetime64[25s]",
        str,
        "S",
    ]
    for number, kind in enumerate(kinds):
        name = f"types-{os.getpid()}-{number}"
        array = share.array(3, kind, name=name)
        wanted = np.zeros(3, kind).dtype
        assert share.attach(name, 3, kind).dtype == array.dtype == wanted, kind
        described = answer("a = share.attach(sys.argv[1]); print(ascii((a.dtype, a.shape)))", name)
        assert described == ascii((wanted, (3,))), kind
        assert pickle.loads(pickle.dumps(array)).dtype == wanted


def processes_of_multiprocessing_share_it():
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        array = share.array((8, 100), np.int64)
        process = context.Process(target=add_one, args=(array,))
        process.start()
        process.join(PATIENCE_S)
        assert process.exitcode == 0 and (array == 1).all()
        with context.Pool(2) as pool:
            pool.starmap(set_row, [(array, row) for row in range(8)])
        assert (array.T == np.arange(8)).all()


def tasks_of_concurrent_futures_share_it():
    for method in ("fork", "spawn"):
        array = share.array((8, 100), np.int64)
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            kinds = list(pool.map(set_row, [array] * 8, range(8)))
        assert kinds == [("Array", True)] * 8 and (array.T == np.arange(8)).all()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        pool.map(set_row, [array] * 8, range(7, -1, -1))
    assert (array.T == np.arange(8)).all()


def a_worker_that_dies_leaves_it():
    array = share.array(4)
    process = multiprocessing.get_context("spawn").Process(target=die, args=(array,))
    process.start()
    process.join(PATIENCE_S)
    assert process.exitcode == -signal.SIGKILL and array.tolist() == [7, 0, 0, 0]


def programs_find_it_by_its_name():
    name = f"check-{os.getpid()}"
    array = share.array((5, 3), np.int16, name=name)
    assert array.name == name and share.attach(name).base is array.base
    assert answer("a = share.attach(sys.argv[1]); a[2] = 9; print(a.shape, a.dtype)", name) == "(5, 3) int16"
    assert array[2].tolist() == [9, 9, 9]
    raises(ShareError, "is taken: process", share.array, 3, name=name)
    raises(ShareError, "has the shape (5, 3), not (3, 5)", share.attach, name, (3, 5))
    raises(ShareError, "is of int16, not float64", share.attach, name, dtype=float)
    assert share.attach(name, (5, 3), "i2").base is array.base
    taken = answer(
        "try: share.array(3, name=sys.argv[1])\nexcept share.ShareError as error: print(error)", name
    )
    assert f"is taken: process {os.getpid()} has an array of this name; call attach(" in taken
    # Another process keeps it when the first one lets go.
    keeper = python("a = share.attach(sys.argv[1]); print(flush=True); sys.stdin.read()", name)
    keeper.stdout.readline()
    array[0, 0] = 5
    array = None
    assert share.attach(name)[0, 0] == 5
    keeper.communicate(timeout=PATIENCE_S)
    raises(ShareError, "is gone", share.attach, name)


def descriptors_are_not_looked_at_one_by_one():
    many = "import os; has = [os.open('/dev/null', os.O_RDONLY) for _ in range(500)];"
    name = f"many-{os.getpid()}"
    owner = python(f"{many} a = share.array(3, name=sys.argv[1]); print(flush=True); sys.stdin.read()", name)
    owner.stdout.readline()
    # Of its own descriptors a process looks at none, and of another's only where that has the array.
    program = f"""
{many}
from forebay import _memory
looked = []
_memory.os.readlink = lambda path, look=os.readlink: (looked.append(path), look(path))[1]
a = share.array(3, name=sys.argv[1] + "-other")
print(sum(path.startswith((f"/proc/{{os.getpid()}}/", "/proc/{owner.pid}/")) for path in looked))
print(share.attach(sys.argv[1]).shape)
"""
    assert answer(program, name).split("\n") == ["0", "(3,)"]
    owner.communicate(timeout=PATIENCE_S)


def one_of_many_gets_a_name():
    name = f"race-{os.getpid()}"
    program = """
print(flush=True)
sys.stdin.readline()
try: a = share.array(10, name=sys.argv[1]); print("has", flush=True)
except share.ShareError: print("taken", flush=True)
sys.stdin.read()
"""
    processes = [python(program, name) for _ in range(6)]
    for process in processes:
        process.stdout.readline()
    for process in processes:
        process.stdin.write(b"\n")
        process.stdin.flush()
    answers = sorted(process.stdout.readline().strip() for process in processes)
    for process in processes:
        process.communicate(timeout=PATIENCE_S)
    assert answers == [b"has"] + [b"taken"] * 5, answers


def nothing_is_left_when_all_are_killed():
    name = f"killed-{os.getpid()}"
    program = "a = share.{}; print(flush=True); sys.stdin.read()"
    processes = []
    for call in ["array(1000, name=sys.argv[1])"] + ["attach(sys.argv[1])"] * 3:
        processes.append(python(program.format(call), name))
        processes[-1].stdout.readline()
    assert share.attach(name).shape == (1000,)
    for process in processes:
        assert f"forebay:{name}" in memory_objects(process.pid)
        process.kill()
    for process in processes:
        process.wait(PATIENCE_S)
    raises(ShareError, "is gone", share.attach, name)
    assert f"forebay:{name}" not in memory_objects()
    assert not [entry for entry in os.listdir("/dev/shm") if name in entry]
    share.array(3, name=name)


def all_processes_have_one_copy():
    size = 64 * MIB
    array = share.array(size, np.uint8)
    array[:] = 1
    program = """
import pickle
a = pickle.load(sys.stdin.buffer)
assert a.sum(dtype=np.int64) == a.size
print(flush=True)
sys.stdin.read()
"""
    workers = [python(program) for _ in range(4)]
    for worker in workers:
        worker.stdin.write(pickle.dumps(array))
        worker.stdin.flush()
        assert worker.stdout.readline() == b"\n"
    shares = [proportional_bytes(process, array) for process in ["self"] + [worker.pid for worker in workers]]
    for worker in workers:
        worker.communicate(timeout=PATIENCE_S)
    assert 0.95 * size < sum(shares) < 1.05 * size, shares


def proportional_bytes(process, array):
    """The share of a process in the memory of an array."""
    with open(f"/proc/{process}/smaps") as file:
        areas = re.split(r"\n(?=[0-9a-f]+-)", file.read())
    parts = [re.search(r"^Pss: +(\d+) kB", area, re.M) for area in areas if f"/memfd:forebay:{array.name}" in area]
    return sum(int(part[1]) for part in parts) * 1024


def memory_goes_with_the_last_reference():
    array = share.array(10 * MIB, np.uint8)
    label = f"forebay:{array.name}"
    view = array[5:10][::2]
    assert label in memory_objects()
    array = None
    assert label in memory_objects() and view.sum() == 0
    view = None
    assert label not in memory_objects()


def system_calls_take_it():
    array = share.array((5, 40000))
    array[...] = np.arange(200000.0).reshape(5, 40000)
    file = os.memfd_create("copy")
    assert os.write(file, array) == array.nbytes and os.pread(file, 16, 8) == array[0, 1:3].tobytes()
    array[...] = 0
    assert os.preadv(file, [array[1], array[0]], 0) == 640000 and array[1, 5] == 5


def loky_shares_it():
    import joblib

    array = share.array((8, 200_000))
    tasks = (joblib.delayed(set_row)(array, row) for row in range(8))
    assert joblib.Parallel(n_jobs=2)(tasks) == [("Array", True)] * 8
    assert (array.T == np.arange(8)).all()


def dask_shares_it():
    import dask

    array = share.array((8, 100))
    tasks = [dask.delayed(set_row)(array, row) for row in range(8)]
    dask.compute(*tasks, scheduler="processes", num_workers=2)
    assert (array.T == np.arange(8)).all()


def make_filled(number):
    array = share.array(1000)
    array[:] = number
    return array


def is_array(array):
    return type(array) is share.Array


def distributed_shares_it():
    # Made before the import, as in programs that import where they need it.
    array = share.array((8, 100))
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        told = client.gather([client.submit(set_row, array, row) for row in range(8)])
        assert told == [("Array", True)] * 8 and (array.T == np.arange(8)).all()
        scattered = client.scatter(array)
        assert client.submit(set_row, scattered, 3).result() == ("Array", True)
        # From one worker to the other one, and back to this process.
        workers = list(client.scheduler_info()["workers"])
        made = client.submit(make_filled, 7, workers=workers[:1])
        assert client.submit(set_row, made, 2, workers=workers[1:]).result() == ("Array", True)
        found = made.result()
        assert is_array(found) and found[2] == 2 and found[3] == 7
        found[4] = 8
        assert client.submit(np.ndarray.item, made, 4, workers=workers[:1]).result() == 8


def what_distributed_sends_elsewhere_or_keeps_on_a_disk_is_the_data():
    from distributed.protocol import deserialize, serialize

    array = share.array(100)
    array[:] = 5

    def sent(*addresses):
        context = {end: {"address": address} for end, address in zip(("sender", "recipient"), addresses)}
        return deserialize(*serialize(array, context=context or None))

    for here in ("tcp://127.0.0.1:1234", "tls://[::1]:1234"):
        array[0] += 1
        assert is_array(sent(here, here)) and sent(here, here)[0] == array[0]
    for addresses in [(), (here, "tcp://10.0.0.1:1"), ("tcp://10.0.0.1:1", here), ("tcp://name:1",) * 2]:
        found = sent(*addresses)
        assert type(found) is np.ndarray and np.array_equal(found, array)
    # What lies in the memory of a job on several machines is there on all of them, and on no disk.
    from forebay._distributed import Reach, _leads_there

    far = {"sender": {"address": "tcp://10.0.0.1:1"}, "recipient": {"address": "tcp://10.0.0.2:1"}}
    assert _leads_there(Reach.JOB, far) and not _leads_there(Reach.MACHINE, far)
    assert not any(_leads_there(reach, None) for reach in Reach)


def pandas_works_in_it():
    import pandas

    array = share.array((100, 3))
    frame = pandas.DataFrame(array, columns=list("abc"), copy=False)
    array[:, 1] = 4
    assert frame["b"].sum() == 400 and frame.groupby("b")["a"].count().tolist() == [100]
    assert len(pickle.dumps(frame)) > array.nbytes


def hdf5_takes_it():
    import h5py

    array = share.array((5, 40000))
    array[3] = 8
    with h5py.File("check.h5", "w", driver="core", backing_store=False) as file:
        file["x"] = array
        file["y"] = array[3]
        array[...] = 0
        file["x"].read_direct(array)
        assert array[3].sum() == 320000 == file["y"][...].sum()


CHECKS = [
    an_array_is_an_ndarray,
    mistakes_are_told,
    a_pickle_is_the_place_and_not_the_data,
    workers_give_arrays_that_they_have_made,
    elements_are_of_any_type_of_numpy,
    processes_of_multiprocessing_share_it,
    tasks_of_concurrent_futures_share_it,
    a_worker_that_dies_leaves_it,
    programs_find_it_by_its_name,
    descriptors_are_not_looked_at_one_by_one,
    one_of_many_gets_a_name,
    nothing_is_left_when_all_are_killed,
    all_processes_have_one_copy,
    memory_goes_with_the_last_reference,
    system_calls_take_it,
    loky_shares_it,
    dask_shares_it,
    distributed_shares_it,
    what_distributed_sends_elsewhere_or_keeps_on_a_disk_is_the_data,
    pandas_works_in_it,
    hdf5_takes_it,
    what_a_child_puts_into_a_queue_is_there_when_it_ends,
    one_pickle_is_for_several_readers,
    a_task_with_an_array_that_is_gone_fails_and_its_pool_goes_on,
    what_is_pickled_stays_until_it_is_unpickled,
]

if __name__ == "__main__":
    wanted = sys.argv[1:]
    for check in CHECKS:
        if not wanted or check.__name__ in wanted:
            check()
            print(check.__name__, flush=True)
