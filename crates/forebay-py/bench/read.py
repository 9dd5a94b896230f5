"""Reads a capture file into numpy with forebay, dpkt and scapy, in the same run: the time and the length of every packet, and a look at
one byte of each payload.

    pip install ./crates/forebay-py numpy dpkt scapy
    python crates/forebay-py/bench/read.py [PACKETS [PACKETS OF scapy]]

The file is made with the simulated card. scapy reads fewer packets of it, since it takes minutes for a million.
"""

import os
import sys
import tempfile
import time

import numpy

import forebay

ROUNDS = 3


def with_forebay(path, limit):
    times, lengths, payloads = [], [], []
    in_place = 0
    with forebay.read(path) as capture:
        for burst in capture:
            times.append(burst.time)
            lengths.append(burst.length)
            payload = numpy.frombuffer(burst.payload, numpy.uint8)
            payloads.append(payload[burst.offset + 12])
            in_place += check_place(burst, payload)
    assert in_place > 0.9 * limit, "most payloads are where the file was read to"
    return numpy.concatenate(times), numpy.concatenate(lengths), numpy.concatenate(payloads)


def check_place(burst, payload):
    """The packets of a burst that are in the memory that the file was read into: their lengths precede them there, in their blocks."""
    if not burst.is_borrowed:
        return 0
    at = int(burst.offset[-1])
    assert int.from_bytes(payload[at - 8 : at - 4].tobytes(), "little") == burst.length[-1]
    assert numpy.frombuffer(burst[-1], numpy.uint8).ctypes.data == payload.ctypes.data + at
    return len(burst)


def with_dpkt(path, limit):
    import dpkt

    times, lengths, payloads = [], [], []
    with open(path, "rb") as file:
        for at, packet in dpkt.pcapng.Reader(file):
            times.append(at)
            lengths.append(len(packet))
            payloads.append(packet[12])
    return numpy.array(times), numpy.array(lengths), numpy.array(payloads)


def with_scapy(path, limit):
    from scapy.utils import RawPcapNgReader

    times, lengths, payloads = [], [], []
    with RawPcapNgReader(str(path)) as packets:
        for packet, meta in packets:
            times.append((meta.tshigh << 32) + meta.tslow)
            lengths.append(len(packet))
            payloads.append(packet[12])
            if len(times) == limit:
                break
    return numpy.array(times), numpy.array(lengths), numpy.array(payloads)


def with_scapy_packets(path, limit):
    from scapy.utils import PcapNgReader

    times, lengths, payloads = [], [], []
    with PcapNgReader(str(path)) as packets:
        for packet in packets:
            times.append(float(packet.time))
            lengths.append(len(packet))
            payloads.append(bytes(packet)[12])
            if len(times) == limit:
                break
    return numpy.array(times), numpy.array(lengths), numpy.array(payloads)


def main():
    packets = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    of_scapy = int(sys.argv[2]) if len(sys.argv) > 2 else min(packets, 20_000)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.pcapng")
        with forebay.capture(f"sim:count={packets},clock=virtual") as capture:
            assert forebay.write(path, capture) == packets
        print(f"{packets} packets, {os.path.getsize(path) / 1e6:.0f} MB; the best of {ROUNDS} rounds")
        rates = {}
        for name, read in (
            ("forebay", with_forebay), ("dpkt", with_dpkt), ("scapy, raw", with_scapy), ("scapy", with_scapy_packets)
        ):  # fmt: skip
            limit = of_scapy if "scapy" in name else packets
            for _ in range(ROUNDS if name != "scapy" else 1):
                begun = time.perf_counter()
                times, lengths, payloads = read(path, limit)
                rate = len(times) / (time.perf_counter() - begun)
                rates[name] = max(rate, rates.get(name, 0))
            assert len(times) == limit and lengths.sum() == 60 * limit and len(payloads) == limit
            print(f"{name:12} {rates[name]:12,.0f} packets/s   forebay is {rates['forebay'] / rates[name]:6.1f} times as fast")


if __name__ == "__main__":
    main()
