"""Heat spreads over a plate with a hot upper edge. Each host computes some of the rows."""
from forebay import share

SIZE = 64
STEPS = 1000

with share.join() as host:
    now = host.array((SIZE, SIZE))
    new = host.array((SIZE, SIZE))
    if host.rank == 0:
        now[0] = new[0] = 100
    mine = host.block(SIZE)
    first = max(mine.start, 1)
    end = max(min(mine.stop, SIZE - 1), first)
    for _ in range(STEPS):
        host.barrier()
        above, below, rows = now[first - 1 : end - 1], now[first + 1 : end + 1], now[first:end]
        new[first:end, 1:-1] = (above[:, 1:-1] + below[:, 1:-1] + rows[:, :-2] + rows[:, 2:]) / 4
        now, new = new, now
    host.barrier()
    if host.rank == 0:
        print(f"{now[SIZE // 2, SIZE // 2]:.6f} degrees in the middle")
