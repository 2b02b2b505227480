"""Runs a server behind a link of its own: link.py MILLISECONDS SERVER ARGUMENTS..., until the input ends.

Packets take so long each way between 10.77.0.1, of the caller's network, and 10.77.0.2, of the server's. It prints the server's
process.
"""

import ctypes
import fcntl
import os
import queue
import struct
import subprocess
import sys
import threading
import time

NEW_NETWORK = 0x40000000
SET_DEVICE, TUN, NO_HEADER = 0x400454CA, 0x0001, 0x1000
PACKET_MAX = 65536


def end(address):
    """This network's end of the link."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, SET_DEVICE, struct.pack("16sH", b"late0", TUN | NO_HEADER))
    for line in f"addr add {address}/24 dev late0", "link set late0 up", "link set lo up":
        subprocess.run(["ip", *line.split()], check=True)
    return device


def carry(come, go, seconds):
    """Packets from one end, in their order and so much later, to the other."""
    packets = queue.SimpleQueue()

    def take():
        while True:
            packets.put((os.read(come, PACKET_MAX), time.monotonic() + seconds))

    def give():
        while True:
            packet, due = packets.get()
            time.sleep(max(0, due - time.monotonic()))
            os.write(go, packet)

    for work in take, give:
        threading.Thread(target=work, daemon=True).start()


near = end("10.77.0.1")
if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK):
    raise OSError(ctypes.get_errno(), "unshare")
far = end("10.77.0.2")
server = subprocess.Popen(sys.argv[2:])
print(server.pid, flush=True)
for ends in (near, far), (far, near):
    carry(*ends, float(sys.argv[1]) / 1e3)
sys.stdin.read()
server.kill()
