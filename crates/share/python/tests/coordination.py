"""Checks of locks, numbers, waits and teams: part of checks.py."""

import threading

import numpy as np

from forebay.share import ShareError


def raises(kind, part, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        assert part in str(error), str(error)
    else:
        raise AssertionError(f"{call} raised no {kind}")


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


def numbers_change_by_atomic_operations(host):
    for dtype in (np.int8, np.uint16, np.int32, np.uint64, "V16"):
        for granularity in (None, "element"):
            table = host.array((2, 3), dtype, granularity=granularity)
            number = host.atomic(table, (1, 2))
            for _ in range(10):
                number.fetch_add(host.rank + 1)
                host.atomic(table, (0, 1)).fetch_xor(64)
            host.barrier()
            assert number.load() == 10 * host.hosts * (host.hosts + 1) // 2, (number.load(), dtype)
            assert host.atomic(table, (0, 1)).load() == 0
            host.barrier()
            host.atomic(table, (-1, -1)).store(0)
            host.barrier()
            number.fetch_or(1 << host.rank)
            host.barrier()
            assert number.load() == (1 << host.hosts) - 1 and number.compare_exchange(99, 5) == number.load()
            host.barrier()
            assert number.fetch_and(0) in (0, (1 << host.hosts) - 1)
            host.barrier()
            if host.rank == 0:
                assert number.swap(5) == 0 and number.compare_exchange(5, 6) == 5 and number.fetch_add(-7) == 6
                bits = np.dtype(dtype).itemsize * 8
                smallest, largest = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if np.dtype(dtype).kind == "i" else (0, 2**bits - 1)
                assert number.load() == (-1 if smallest < 0 else largest)
                for wrong in (smallest - 1, largest + 1):
                    for call in (number.store, number.swap, lambda value: number.compare_exchange(value, 0)):
                        raises(OverflowError, f"{wrong} is no number of {bits} bits", call, wrong)
                    if bits < 64:
                        number.wait_until("<" if wrong > 0 else ">", wrong)
                        number.wait_until("!=", wrong)
            host.barrier()
    raises(IndexError, "give an index for each", host.atomic, table, 1)
    raises(IndexError, "out of bounds", host.atomic, table, (2, 0))
    raises(TypeError, "no atomic operations", host.atomic, host.array(3), 1)
    raises(ShareError, "not all of one allocation", host.atomic(np.zeros(3, int), 1).load)


def hosts_wait_for_numbers_units_and_conditions(host):
    table = host.array(3, np.int64)
    turn = host.atomic(table, 0)
    for number in range(10):
        turn.wait_until(">=", number * host.hosts + host.rank)
        turn.fetch_add()
        turn.ring()
    assert turn.wait_until("==", 10 * host.hosts) == 10 * host.hosts and turn.wait_until("!=", -1) > 0
    raises(ValueError, "comparison", turn.wait_until, "=", 3)
    semaphore, lock, both = host.semaphore(1), host.lock(11, recursive=True), host.read_write_lock()
    for _ in range(20):
        with semaphore:
            table[1] += 1
        with lock, lock:
            table[2] += 1
    host.barrier()
    assert list(table[1:]) == [20 * host.hosts] * 2
    if host.rank == 0:
        assert semaphore.acquire(blocking=False)
    host.barrier()
    assert not semaphore.acquire(blocking=False)
    host.barrier()
    for _ in range(20):
        with both.writing():
            table[1:] += 1
        with both.reading():
            assert table[1] == table[2]
    host.barrier()
    assert both.read(blocking=False)
    host.barrier()
    assert not both.write(blocking=False)
    host.barrier()
    both.release()
    host.barrier()
    raises(ShareError, "no thread has this lock", both.release)
    with host.condition(12) as condition:
        table[0] -= 1
        condition.wait_for(lambda: table[0] == 9 * host.hosts)
        condition.notify_all()
        condition.notify()
    plain = host.lock(13)
    if host.rank == 0:
        assert plain.acquire(blocking=False)
    host.barrier()
    assert not plain.acquire(blocking=False)
    recursive = host.lock(13, recursive=True)
    for waits in (plain.acquire, semaphore.acquire, *([recursive.acquire] if host.rank else [])):
        assert not waits(timeout=0.01) and not waits(True, 0)
        raises(ValueError, "with blocking", waits, False, 1)
    with host.condition(14) as condition:
        assert not condition.wait_for(lambda: False, timeout=0.02)
        assert condition.wait_for(lambda: 7, timeout=0) == 7
    host.barrier()
    if host.rank == 0:
        with condition:
            assert not condition.wait(timeout=0.01)
    host.barrier()
    if host.rank == 0:
        plain.release()
        semaphore.release()
    assert semaphore.acquire(timeout=60) and plain.acquire(timeout=-1)
    semaphore.release()
    plain.release()
    host.barrier()


def teams_reduce_broadcast_and_gather(host):
    everyone, reverse = host.team(), host.team(range(host.hosts)[::-1])
    assert everyone.members == tuple(range(host.hosts)) and reverse.rank == host.hosts - 1 - host.rank
    for team in (everyone, reverse):
        sums = team.all_reduce(np.arange(3000.0).reshape(30, 100) + host.rank)
        assert np.array_equal(sums, host.hosts * np.arange(3000.0).reshape(30, 100) + sum(range(host.hosts)))
        assert team.all_reduce(host.rank, "max") == host.hosts - 1
        for reduction in ("min", "max"):
            assert np.isnan(team.all_reduce(np.nan if host.rank == 0 else 1.0, reduction))
        assert team.all_reduce(np.uint8(1 << host.rank), "or") == (1 << host.hosts) - 1
        largest = team.reduce([host.rank, 5], "product", root=host.hosts - 1)
        assert (largest is None) == (team.rank != host.hosts - 1)
        assert list(team.all_gather([host.rank, 7])[:, 0]) == list(team.members)
        assert team.broadcast(np.full(3, team.rank), root=0).tolist() == [0, 0, 0]
        assert team.broadcast("mine" if team.rank == 0 else "none") == "mine"
        team.barrier()
        raises(ValueError, "reduction", team.all_reduce, 1, "mean")
        raises(TypeError, "cannot be reduced by 'max'", team.all_reduce, 1j, "max")
        assert team.all_reduce(host.rank + 2j) == sum(range(host.hosts)) + 2j * host.hosts
        truths = np.array([True, host.rank == 0, False])
        for reduction, wanted in [("and", [1, host.hosts == 1, 0]), ("or", [1, 1, 0]), ("max", [1, 1, 0]), ("min", [1, host.hosts == 1, 0])]:
            reduced = team.all_reduce(truths, reduction)
            assert reduced.dtype == bool and reduced.tolist() == wanted, reduction
        assert team.all_reduce(truths).tolist() == [host.hosts, 1, 0] and team.all_reduce(truths, "product").dtype == int
        assert team.all_reduce(True, "xor") == bool(host.hosts % 2)
        if host.hosts > 1:
            # Of as many bytes, which would be taken for each other.
            odd = 0 if host.rank == 0 else 0.5
            for call in (team.all_gather, team.broadcast, lambda value: team.all_reduce([value] * 2, "sum")):
                raises(ShareError, f"host {host.rank} of {host.hosts} called", call, odd)
            raises(ShareError, "called", team.all_gather, np.zeros((2, 3) if host.rank else (3, 2)))
        raises(TypeError, "cannot be exchanged", team.broadcast, object())
        raises(ValueError, "root", team.broadcast, 1, host.hosts)
        raises(ShareError, "no bits", team.all_reduce, 1.0, "xor")
    first = host.team([0])
    if host.rank == 0:
        assert first.all_reduce(3) == 3
    else:
        raises(ShareError, "no member", first.barrier)
    raises(ValueError, "no host", host.team, [host.hosts])
    raises(ValueError, "at least one", host.team, [])
    raises(ShareError, "each of its hosts once", host.team, [0, 0])


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


CHECKS = [
    a_lock_makes_a_sum_exact,
    numbers_change_by_atomic_operations,
    hosts_wait_for_numbers_units_and_conditions,
    teams_reduce_broadcast_and_gather,
    other_threads_run_while_one_waits,
]
