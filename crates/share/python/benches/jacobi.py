"""Times the heat program of the guide, in shared memory of Forebay or of MPI, or in NumPy arrays of one process.

    python jacobi.py numpy 512 1000
    forebay share -n 2 --size 256M -- python jacobi.py forebay 512 1000
    forebay share -n 2 --size 256M -- python jacobi.py ndarray 512 1000
    mpirun -n 2 python jacobi.py mpi 512 1000

`forebay` computes with arrays as `Host.array` returns them, `ndarray` with the same memory as plain ndarrays. The MPI program
needs mpi4py. Each prints the time of the steps, that of the processor on the first host, and the heat in the middle.
"""

import sys
import time

import numpy as np


def numpy_job(size):
    return 0, range(size), [np.zeros((size, size)) for _ in range(2)], lambda: None


def forebay_job(size):
    from forebay import share

    host = share.join()
    return host.rank, host.block(size), [host.array((size, size)) for _ in range(2)], host.barrier


def ndarray_job(size):
    rank, mine, plates, barrier = forebay_job(size)
    return rank, mine, [plate.as_ndarray() for plate in plates], barrier


def mpi_job(size):
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    rank, hosts = world.rank, world.size
    plates = []
    for _ in range(2):
        window = MPI.Win.Allocate_shared(size * size * 8 if rank == 0 else 0, 8, comm=world)
        memory, _ = window.Shared_query(0)
        plates.append(np.ndarray((size, size), buffer=memory))
        if rank == 0:
            plates[-1][...] = 0
    return rank, range(rank * size // hosts, (rank + 1) * size // hosts), plates, world.Barrier


def step(now, new, first, end):
    above, below, rows = now[first - 1 : end - 1], now[first + 1 : end + 1], now[first:end]
    new[first:end, 1:-1] = (above[:, 1:-1] + below[:, 1:-1] + rows[:, :-2] + rows[:, 2:]) / 4


def main(kind, size, steps):
    job = {"numpy": numpy_job, "forebay": forebay_job, "ndarray": ndarray_job, "mpi": mpi_job}[kind]
    rank, mine, (now, new), barrier = job(size)
    if rank == 0:
        now[0] = new[0] = 100
    first, end = max(mine.start, 1), min(mine.stop, size - 1)
    barrier()
    begin, used = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step(now, new, first, end)
        barrier()
        now, new = new, now
    if rank == 0:
        elapsed, used = time.perf_counter() - begin, time.process_time() - used
        print(f"{kind}: {elapsed:.3f} s, {used:.3f} s of processor, {now[size // 2, size // 2]:.6f} degrees")


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
