"""Compares AV1 as it is received with what is in the file: the OBUs of each temporal unit.

python av1.py FILE URL tcp|udp, with PyAV, whose ffmpeg receives AV1 over RTP. Where they differ, that is said.
"""

import sys

import av

TEMPORAL_DELIMITER = 2


# An OBU has a header of a byte or two and, if a flag says so, a length. Receivers put delimiters and lengths of their own.
def obus(unit):
    found = []
    at = 0
    while at < len(unit):
        header = unit[at]
        content = at + (2 if header & 4 else 1)
        extension = unit[at + 1 : content]
        length = len(unit) - content
        if header & 2:
            length, shift = 0, 0
            while True:
                byte = unit[content]
                content += 1
                length |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
        at = content + length
        if header >> 3 & 15 != TEMPORAL_DELIMITER:
            found.append((header & ~2, extension, unit[content:at]))
    return found


def units(name, **options):
    with av.open(name, options=options) as opened:
        packets = opened.demux(opened.streams.video[0])
        return [obus(bytes(packet)) for packet in packets if packet.size]


file, url, transport = sys.argv[1:]
expected = units(file)
got = units(url, rtsp_transport=transport)
if got != expected:
    sys.exit(f"{len(got)} units of {len(expected)}, or others")
