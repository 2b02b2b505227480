"""Times small operations on arrays of `forebay.share` beside the same on arrays of NumPy, in turn.

    python one_element.py
    forebay share -n 1 --separate -- python one_element.py
"""

import timeit

import numpy as np

from forebay import share

OPERATIONS = ["a[5]", "a[5, 3]", "a[5, 3] = 1", "a[2:9]", "a[5] += 1", "a.sum()", "a + 1"]
ROUNDS = 7
CALLS = 20_000

with share.join() as host:
    kinds = {"numpy": np.zeros((1000, 64)), "array": share.array((1000, 64)), "host.array": host.array((1000, 64))}
    for operation in OPERATIONS:
        best = dict.fromkeys(kinds, float("inf"))
        for _ in range(ROUNDS):
            for kind, array in kinds.items():
                seconds = timeit.timeit(operation, globals={"a": array}, number=CALLS)
                best[kind] = min(best[kind], seconds / CALLS)
        times = ", ".join(f"{kind} {best[kind] * 1e9:.0f} ns ({best[kind] / best['numpy']:.2f})" for kind in kinds)
        print(f"{operation:12} {times}")
