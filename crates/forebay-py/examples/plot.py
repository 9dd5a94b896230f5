"""Draws the packets of each 10 ms of a capture file, and marks where packets were lost.

    pip install matplotlib
    python plot.py a.pcapng a.png
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot
import numpy

import forebay

STEP = 10_000_000  # 10 ms in nanoseconds


def read(path):
    """The time of every packet, and the packets lost directly before it."""
    times, dropped = [], []
    with forebay.read(path) as capture:
        for burst in capture:
            times.append(burst.time)
            dropped.append(burst.dropped)
    return numpy.concatenate(times), numpy.concatenate(dropped)


def main(path, picture):
    times, dropped = read(path)
    steps = (times - times[0]) // STEP
    packets = numpy.bincount(steps)
    lost = numpy.bincount(steps, weights=dropped)

    figure, axes = matplotlib.pyplot.subplots(figsize=(9, 4), layout="constrained")
    seconds = numpy.arange(len(packets) + 1) * STEP / 1e9
    axes.stairs(packets, seconds, label="received", linewidth=1)
    at = lost.nonzero()[0]
    axes.bar(seconds[at], lost[at], bottom=packets[at], width=STEP / 1e9, align="edge", color="tab:red", label="lost")
    axes.set(xlabel="time (s)", ylabel="packets per 10 ms", title=f"{packets.sum()} packets, {lost.sum():.0f} lost")
    axes.set_ylim(0)
    axes.legend(loc="upper left")
    figure.savefig(picture, dpi=120)
    print(f"{picture}: {packets.sum()} packets, {lost.sum():.0f} lost")


if __name__ == "__main__":
    main(*sys.argv[1:])
