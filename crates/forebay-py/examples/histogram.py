"""Captures packets, and prints how many there are of each length.

    python histogram.py [SOURCE] [SECONDS]

SOURCE is an interface such as eth0, share:NAME, or the simulated card.
"""

import sys
import threading

import numpy

import forebay


def main(source="sim:rate=100kpps,size=imix", seconds="1"):
    edges = numpy.array([0, 64, 128, 256, 512, 1024, 1519, 1 << 20])
    packets = numpy.zeros(len(edges) - 1, int)
    with forebay.capture(source) as capture:
        timer = threading.Timer(float(seconds), capture.stop)
        timer.start()
        for burst in capture:
            packets += numpy.histogram(burst.wire_length, edges)[0]
        timer.cancel()
    for low, high, count in zip(edges, edges[1:], packets):
        print(f"{low:>5} to {high - 1:>7} bytes: {count:>9} packets")
    lost = [count for count in capture.counts["dropped"].values() if count is not None]
    print(sum(lost), "packets lost")


if __name__ == "__main__":
    main(*sys.argv[1:])
