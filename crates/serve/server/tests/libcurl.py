"""Watches a track on an RTSP connection with libcurl, and pauses once on the way.

python3 libcurl.py URL USER:PASSWORD basic|digest PACKETS. It pauses after so many packets. What comes are lines: the status of
each request, and each packet of media in hexadecimal digits. libcurl tells on standard error what it says to the server.
"""

import ctypes
import sys

# As curl/curl.h and curl/easy.h number them.
USERPWD, HTTPAUTH, VERBOSE, TIMEOUT = 10005, 107, 41, 13
URL, WRITEFUNCTION, INTERLEAVEFUNCTION = 10002, 20011, 20196
RTSP_REQUEST, RTSP_STREAM_URI, RTSP_TRANSPORT = 189, 10191, 10192
RESPONSE_CODE = 0x200002
REQUESTS = {"DESCRIBE": 2, "SETUP": 4, "PLAY": 5, "PAUSE": 6, "TEARDOWN": 7}
RECEIVE = 11
SCHEMES = {"basic": 1, "digest": 2}
GOODBYE = 203

Callback = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p)
curl = ctypes.CDLL("libcurl.so.4")
curl.curl_easy_init.restype = ctypes.c_void_p
curl.curl_easy_strerror.restype = ctypes.c_char_p
handle = ctypes.c_void_p(curl.curl_easy_init())
url, user, scheme, before_pause = sys.argv[1:]
received = 0
is_over = False


def option(which, value):
    curl.curl_easy_setopt(handle, which, value.encode() if isinstance(value, str) else value)


def perform():
    failure = curl.curl_easy_perform(handle)
    if failure:
        sys.exit(curl.curl_easy_strerror(failure).decode())


def request(method, uri):
    option(RTSP_REQUEST, ctypes.c_long(REQUESTS[method]))
    option(RTSP_STREAM_URI, uri)
    perform()
    status = ctypes.c_long()
    curl.curl_easy_getinfo(handle, RESPONSE_CODE, ctypes.byref(status))
    print(method, status.value)
    if status.value != 200:
        sys.exit(0)


# A frame has four bytes before the packet, of which the second is its channel.
@Callback
def take(frame, size, count, _):
    global received, is_over
    frame = ctypes.string_at(frame, size * count)
    if frame[1] == 0:
        received += 1
        print("packet", frame[4:].hex())
    elif frame[-7] == GOODBYE:
        is_over = True
    return size * count


@Callback
def ignore(_content, size, count, _):
    return size * count


def receive(is_enough):
    option(RTSP_REQUEST, ctypes.c_long(RECEIVE))
    while not is_enough():
        perform()


option(URL, url)
option(USERPWD, user)
option(HTTPAUTH, ctypes.c_long(SCHEMES[scheme]))
option(VERBOSE, ctypes.c_long(1))
option(TIMEOUT, ctypes.c_long(20))
option(WRITEFUNCTION, ignore)
option(INTERLEAVEFUNCTION, take)
option(RTSP_TRANSPORT, "RTP/AVP/TCP;unicast;interleaved=0-1")
request("DESCRIBE", url)
request("SETUP", f"{url}/trackID=0")
request("PLAY", url)
receive(lambda: received >= int(before_pause))
request("PAUSE", url)
request("PLAY", url)
receive(lambda: is_over)
request("TEARDOWN", url)
