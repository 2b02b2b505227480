"""Heat spreads over a plate with a hot upper edge. Each host computes some of the rows."""
from forebay import share

SIZE = 64
STEPS = 1000

with share.join() as host:
    now = host.array((SIZE, SIZE))
    new = host.array((SIZE, SIZE))
    if host.rank == 0:
        now[0] = new[0] = 100
    for _ in range(STEPS):
        host.barrier()
        for i in host.block(SIZE):
            if 0 < i < SIZE - 1:
                around = now[i - 1][1:-1] + now[i + 1][1:-1] + now[i][:-2] + now[i][2:]
                new[i, 1:-1] = around / 4
        now, new = new, now
    host.barrier()
    if host.rank == 0:
        print(f"{now[SIZE // 2, SIZE // 2]:.6f} degrees in the middle")
