"""Plays a URL with GStreamer's rtspsrc to its end, as it is told on standard input: `pause`, `play`, `seek SECONDS`.

python3 gstreamer.py tcp|udp URL. What comes out of a depayloader is a line: the kind of the track, the place in the film in
nanoseconds, and the bytes in hexadecimal digits. So is a command that has been followed: `done` and its words.

With `RATE START STOP all|key paced|free` after the URL a recording is replayed as ONVIF has it. Places are nanoseconds since 1900 then,
and so are START and STOP.
"""

import os
import sys
import threading
import time

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtsp", "1.0")
# Without it messages of rtspsrc have no methods.
from gi.repository import GLib, Gst, GstRtsp  # noqa: F401

DEPAYLOADERS = {
    "H264": "rtph264depay ! video/x-h264,stream-format=byte-stream,alignment=au",
    "H265": "rtph265depay ! video/x-h265,stream-format=byte-stream,alignment=au",
    "MPEG4-GENERIC": "rtpmp4gdepay",
    "OPUS": "rtpopusdepay",
    "MULTIOPUS": "rtpopusdepay",
    "VP8": "rtpvp8depay",
    "VP9": "rtpvp9depay",
    "VORBIS": "rtpvorbisdepay",
    "AC3": "rtpac3depay",
    "L16": "rtpL16depay",
    "L24": "rtpL24depay",
    "MP4V-ES": "rtpmp4vdepay",
    "SMPTE336M": "rtpklvdepay",
    "MPA": "rtpmpadepay",
    "MP2T": "rtpmp2tdepay",
}
WAIT_MAX = 20 * Gst.SECOND
# After so long without anything it is over: the goodbye may be lost over UDP.
SILENCE_S = 10
END_MAX_S = 5

Gst.init(None)
TIME = Gst.Format.TIME
# PyGObject builds a class when it is first used. Threads of two tracks at once would see a half of it.
building = threading.Lock()
protocol, url, *replay = sys.argv[1:]
loop = GLib.MainLoop()
pipeline = Gst.Pipeline.new()
errors = []
heard_at = time.monotonic()


# A line at once: each track has a thread.
def say(*words):
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


# Before the sink: that leaves out what it takes to be before the beginning.
def take(pad, information, kind):
    global heard_at
    heard_at = time.monotonic()
    with building:
        segment = pad.get_sticky_event(Gst.EventType.SEGMENT, 0).parse_segment()
        buffer = information.get_buffer()
        place = buffer.pts if replay else segment.to_stream_time(TIME, buffer.pts)
        content = buffer.extract_dup(0, buffer.get_size())
        onwards = Gst.PadProbeReturn.OK
    say(kind, str(place), content.hex())
    return onwards


def receive(_source, pad):
    with building:
        connect(pad)


def connect(pad):
    stream = pad.get_current_caps().get_structure(0)
    depayloader = DEPAYLOADERS[stream.get_string("encoding-name").upper()]
    chain = f"rtponvifparse ! {depayloader} ! fakesink" if replay else f"{depayloader} ! fakesink sync=true"
    receiver = Gst.parse_bin_from_description(f"{chain} name=end", True)
    pad_of_sink = receiver.get_by_name("end").get_static_pad("sink")
    pad_of_sink.add_probe(Gst.PadProbeType.BUFFER, take, stream.get_string("media"))
    pipeline.add(receiver)
    receiver.sync_state_with_parent()
    pad.link(receiver.get_static_pad("sink"))


# Between its end and TEARDOWN rtspsrc sends PAUSE, and over UDP fails at times, because it was still listening on the connection.
# Nothing is left to receive then, so what the player says about that is ignored.
def end(_bus, message):
    if message.type == Gst.MessageType.ERROR:
        error, detail = message.parse_error()
        errors.append(f"{error.message} {detail}")
    if message.type in (Gst.MessageType.ERROR, Gst.MessageType.EOS):
        loop.quit()


def require(_source, message):
    message.add_header_by_name("Require", "onvif-replay")
    return True


def seek_when_open(_bus, message):
    kind, code, _text = message.parse_progress()
    if kind != Gst.ProgressType.COMPLETE or code != "open":
        return
    rate, start, stop, frames = float(replay[0]), int(replay[1]), int(replay[2]), replay[3]
    flags = Gst.SeekFlags.FLUSH
    if frames == "key":
        flags |= Gst.SeekFlags.TRICKMODE | Gst.SeekFlags.TRICKMODE_KEY_UNITS
    at = Gst.SeekType.SET
    source.send_event(Gst.Event.new_seek(rate, TIME, flags, at, start, at, stop))
    pipeline.set_state(Gst.State.PLAYING)


def leave_if_silent():
    if time.monotonic() - heard_at > SILENCE_S:
        loop.quit()
    return GLib.SOURCE_CONTINUE


def obey(channel, _condition):
    words = channel.readline().split()
    match words:
        case ["pause"]:
            pipeline.set_state(Gst.State.PAUSED)
        case ["play"]:
            pipeline.set_state(Gst.State.PLAYING)
        case ["seek", seconds]:
            place = int(float(seconds) * Gst.SECOND)
            pipeline.seek_simple(TIME, Gst.SeekFlags.FLUSH | Gst.SeekFlags.KEY_UNIT, place)
        case _:
            return GLib.SOURCE_REMOVE
    pipeline.get_state(WAIT_MAX)
    say("done", *words)
    return GLib.SOURCE_CONTINUE


source = Gst.ElementFactory.make("rtspsrc")
source.set_property("location", url)
source.set_property("latency", 500)
Gst.util_set_object_arg(source, "protocols", protocol)
source.connect("pad-added", receive)
pipeline.add(source)
pipeline.get_bus().add_signal_watch()
pipeline.get_bus().connect("message", end)
GLib.io_add_watch(sys.stdin, GLib.PRIORITY_DEFAULT, GLib.IOCondition.IN, obey)
GLib.timeout_add_seconds(1, leave_if_silent)
if replay:
    is_paced = replay[4] == "paced"
    # A group of pictures is received before it is shown backwards. What comes as fast as it can is not to wait.
    latency_ms = 1500 if is_paced else 0
    for name, value in (("latency", latency_ms), ("onvif-mode", True), ("onvif-rate-control", is_paced)):
        source.set_property(name, value)
    source.connect("before-send", require)
    # It is opened, and sought in before it plays.
    pipeline.get_bus().connect("message::progress", seek_when_open)
    pipeline.set_state(Gst.State.PAUSED)
else:
    pipeline.set_state(Gst.State.PLAYING)
loop.run()
# rtspsrc waits for a task of its own at its end, at times for ever. All that is compared has come then.
ending = threading.Thread(target=pipeline.set_state, args=[Gst.State.NULL], daemon=True)
ending.start()
ending.join(END_MAX_S)
sys.stderr.write("\n".join(errors))
sys.stderr.flush()
os._exit(1 if errors else 0)
