"""A web server with asyncio and one planted cause of its speed: planted.py CAUSE PORT [PLACE]."""

import asyncio
import concurrent.futures
import os
import socket
import sys
import time

CAUSE, PORT = sys.argv[1], int(sys.argv[2])
PLACE = sys.argv[3] if len(sys.argv) > 3 else ""
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n" + bytes(1024)
QUESTION = b"GET / HTTP/1.1\r\nHost: late\r\n\r\n"

lock = asyncio.Lock()
turn = 0.0
pool = concurrent.futures.ThreadPoolExecutor(2)
connections = []


def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def ask(connect):
    """Asks another server over a connection that is kept."""
    reader, writer = connections.pop() if connections else await connect()
    writer.write(QUESTION)
    await reader.readuntil(b"ok")
    connections.append((reader, writer))


def ask_and_block():
    """Asks another server over a connection of this thread, and blocks until the answer is there."""
    with socket.create_connection(("127.0.0.1", int(PLACE))) as asking:
        asking.sendall(QUESTION)
        while b"ok" not in asking.recv(1024):
            pass


def read_cold():
    """Reads pages of a file that are not in memory, one after the other."""
    with open(os.path.join(PLACE, "data"), "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for number in range(16):
            os.pread(file.fileno(), 4096, number * 65536)


async def wait_for_turn():
    """One request begins every 3 ms."""
    global turn
    now = time.monotonic()
    turn = max(now, turn + 0.003)
    await asyncio.sleep(turn - now)


async def work():
    if CAUSE == "sleep":
        await asyncio.sleep(0.01)
    elif CAUSE == "lock":
        async with lock:
            await asyncio.sleep(0.003)
    elif CAUSE == "rate":
        await wait_for_turn()
    elif CAUSE == "compute":
        compute(0.002)
    elif CAUSE == "read":
        read_cold()
    elif CAUSE == "block":
        time.sleep(0.005)
    elif CAUSE == "ask":
        await ask(lambda: asyncio.open_connection("127.0.0.1", int(PLACE)))
    elif CAUSE == "ask-unix":
        await ask(lambda: asyncio.open_unix_connection(PLACE))
    elif CAUSE == "pool":
        await asyncio.get_running_loop().run_in_executor(pool, ask_and_block)


async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            await work()
            writer.write(ANSWER)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", PORT, backlog=512)
    await server.serve_forever()


asyncio.run(main())
