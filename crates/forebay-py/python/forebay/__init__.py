"""Forebay: packets as columns, and bounded zero-copy buffers between threads and processes.

    import forebay

    with forebay.read("a.pcapng", "tcp port 443") as capture:
        for burst in capture:
            print(len(burst), burst.length.sum())
"""

import atexit
import os

from ._errors import (
    Busy,
    Closed,
    Damaged,
    Defect,
    Empty,
    Error,
    Exists,
    Full,
    InputOutput,
    Interrupted,
    Invalid,
    Misuse,
    NoMemory,
    NoPermission,
    NotFound,
    Overrun,
    TimedOut,
    TooLong,
    Unsupported,
)
from ._forebay import (
    Appender,
    Broadcast,
    BroadcastReader,
    Burst,
    Capture,
    Filter,
    Hub,
    Lane,
    Queue,
    Ring,
    Stream,
    Writer,
    _ending,
    _forked,
    capture,
    read,
    read_records,
)

atexit.register(_ending)
os.register_at_fork(after_in_child=_forked)


def write(path, bursts, *, format=None):
    """Writes every packet of `bursts` (such as a capture) into a capture file, and returns their number.

    The end of the name selects the format, pcap for `.pcap` and `.cap` and otherwise pcapng, unless `format` names one.
    """
    source = getattr(bursts, "_path", None)
    if source is not None and os.path.exists(path) and os.path.samefile(path, source):
        raise Invalid(f"{path}: is the file that is read")
    packets = 0
    with Writer(path, format=format) as file:
        for burst in bursts:
            file.write(burst)
            packets += len(burst)
    return packets


__all__ = [
    "Appender", "Broadcast", "BroadcastReader", "Burst", "Busy", "Capture", "Closed", "Damaged", "Defect", "Empty", "Error", "Exists", "Filter", "Full", "Hub",
    "InputOutput", "Interrupted", "Invalid", "Lane", "Misuse", "NoMemory", "NoPermission", "NotFound", "Overrun", "Queue", "Ring", "Stream", "TimedOut", "TooLong",
    "Unsupported", "Writer", "capture", "read", "read_records", "write",
]  # fmt: skip
