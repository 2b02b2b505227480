"""Workers of a pool sort the rows of one array. All processes map the same memory, and no data are sent."""
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from forebay import share


def sort_row(table, row):
    table[row].sort()


if __name__ == "__main__":
    table = share.array((8, 100_000))
    table[...] = np.random.default_rng(1).random(table.shape)
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(sort_row, [table] * len(table), range(len(table))))
    print("sorted" if (np.diff(table) >= 0).all() else "not sorted")
