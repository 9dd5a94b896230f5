"""Packets: reading, capturing, writing, filters, Arrow."""

import os
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time

import numpy
import pytest

import forebay

SIM = "sim:count=1000,clock=virtual"


@pytest.fixture
def file(tmp_path):
    """1000 packets of the simulated card."""
    path = tmp_path / "a.pcapng"
    with forebay.capture(SIM) as capture:
        assert forebay.write(path, capture) == 1000
    return path


def test_a_file_is_read_as_columns(file):
    times, lengths, packets = [], [], 0
    with forebay.read(file) as capture:
        for burst in capture:
            assert burst.time.dtype == numpy.int64 and burst.length.dtype == numpy.uint32
            assert len(burst) == len(burst.time) == len(burst.offset)
            times.append(burst.time)
            lengths.append(burst.length)
            packets += len(burst)
            assert bytes(burst[-1]) == bytes(burst.payload[burst.offset[-1] :][: burst.length[-1]])
            assert len(list(burst)) == len(burst)
    assert packets == 1000 and numpy.concatenate(lengths).sum() == 60_000
    assert (numpy.diff(numpy.concatenate(times)) >= 0).all()
    counts = capture.counts
    assert counts["received"] == counts["counted"] == 1000 and counts["dropped"]["kernel"] == 0
    assert burst.interfaces[0]["link_type"] == 1


def test_payloads_are_views_of_one_memory(file):
    burst = next(forebay.read(file))
    assert burst.is_borrowed
    begin = numpy.frombuffer(burst.payload, numpy.uint8).ctypes.data
    for index in range(len(burst)):
        packet = numpy.frombuffer(burst[index], numpy.uint8)
        assert packet.ctypes.data == begin + burst.offset[index] and not packet.flags.writeable
    # In the memory that the file was read into, the header of a packet's block is directly before it.
    header = bytes(burst.payload[burst.offset[1] - 28 : burst.offset[1]])
    assert int.from_bytes(header[:4], "little") == 6 and int.from_bytes(header[20:24], "little") == 60


def ethernet(kind, payload):
    return bytes(12) + struct.pack("!H", kind) + payload


def ipv4(protocol, one, other, payload, fragment=0):
    return ethernet(0x0800, struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 1, fragment, 64, protocol, 0) + one + other + payload)


def ipv6(protocol, one, other, payload):
    return ethernet(0x86DD, struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + one + other + payload)


def hashes(path, frames):
    with forebay.Writer(path) as file:
        for frame in frames:
            file.write(frame)
    columns = []
    with forebay.read(path) as capture:
        for burst in capture:
            assert burst.hash.dtype == numpy.uint64 and (burst.hash == burst.hash).all()
            columns.append(burst.hash)
    return numpy.concatenate(columns).tolist()


def test_the_hash_is_that_of_the_conversation(tmp_path):
    """Two packets have one hash if and only if they have the same two ends and the same protocol."""
    random = numpy.random.default_rng(7)
    frames, conversations = [], []
    for number in range(20_000):
        make, size = ((ipv4, 4), (ipv6, 16))[number % 2]
        protocol = (6, 17, 132)[number % 3]
        # Few addresses and ports, so that conversations come again, also in the other direction.
        ends = [(bytes(size - 1) + bytes([random.integers(6)]), int(random.integers(30))) for _ in range(2)]
        frames.append(make(protocol, ends[0][0], ends[1][0], struct.pack("!HH", ends[0][1], ends[1][1]) + bytes(random.integers(40))))
        conversations.append((size, protocol, *sorted(ends)))
    found = hashes(tmp_path / "a.pcapng", frames)
    assert len(set(zip(found, conversations))) == len(set(found)) == len(set(conversations)) > 5000 and 0 not in found
    one, other = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"
    echo, reply, later, again, arp, unknown = hashes(
        tmp_path / "b.pcapng",
        [
            ipv4(1, one, other, b"\x08" + bytes(7)),
            ipv4(1, other, one, b"\x00" + bytes(7)),
            ipv4(17, one, other, b"\x00\x35\x00\x35", fragment=100),
            ipv4(17, other, one, b"\xff\xff\x00\x07", fragment=200),
            ethernet(0x0806, bytes(28)),
            ethernet(0x88CC, bytes(40)),
        ],
    )
    assert echo == reply and later == again and len({echo, later, arp, unknown}) == 4 and unknown == 0


def test_the_hash_is_the_same_on_every_machine(tmp_path):
    frames = [ipv4(6, b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02", b"\x9c\x40\x00\x50"), ipv6(17, bytes(15) + b"\x01", bytes(15) + b"\x02", b"\x00\x35\x00\x35")]

    def mix(hash, word):
        product = (hash ^ word) * 0x9E3779B97F4A7C15
        return product & (1 << 64) - 1 ^ product >> 64

    def expected(*words):
        hash = 0x243F6A8885A308D3
        for word in words:
            hash = mix(hash, word)
        return hash

    # The end with the lower port is the second one; with equal ports, the higher address.
    mapped = 0xFFFF_0000_0000
    assert hashes(tmp_path / "a.pcapng", frames) == [
        expected(mapped | 0x0A000001, 0, mapped | 0x0A000002, 0, 40_000 << 32 | 80 << 16 | 6),
        expected(1, 0, 2, 0, 53 << 32 | 53 << 16 | 17),
    ]


def test_a_filter_selects_packets(file):
    with forebay.read(file, "greater 61") as capture:
        assert list(capture) == []
    assert capture.counts["filtered"] == 1000
    with pytest.raises(forebay.Invalid):
        forebay.read(file, "tcp prot 80")


def test_a_filter_matches_bytes():
    frame = bytearray(60)
    frame[12], frame[14], frame[23] = 0x08, 0x45, 17
    filter = forebay.Filter("udp dst port 53")
    assert not filter.matches(frame)
    frame[37] = 53
    assert filter.matches(frame) and filter.matches(bytes(frame)) and filter.matches(memoryview(frame))
    assert filter.text == "udp dst port 53"
    with pytest.raises(forebay.Invalid) as raised:
        forebay.Filter("ip and ip6")
    assert raised.value.code == -5
    with pytest.raises(TypeError):
        filter.matches("text")


def test_release_refuses_while_a_view_exists_and_use_after_it_raises(file):
    burst = next(forebay.read(file))
    lengths, view = burst.length, burst[0]
    array = numpy.frombuffer(view, numpy.uint8)
    with pytest.raises(BufferError):
        burst.release()
    del view
    with pytest.raises(BufferError):
        burst.release()  # the array still holds it
    first = bytes(array)
    del array
    burst.release()
    assert len(first) == 60 and lengths.sum() == 60 * len(lengths)
    for use in (len, lambda it: it[0], lambda it: it.payload, lambda it: it.time, lambda it: it.detach()):
        with pytest.raises(forebay.Misuse):
            use(burst)
    burst.release()


def test_views_outlive_their_burst_and_capture(file):
    capture = forebay.read(file)
    burst = next(capture)
    views, copies = list(burst), [bytes(packet) for packet in burst]
    del burst
    capture.close()
    del capture
    assert [bytes(view) for view in views] == copies


def test_an_exception_passes_a_burst_with_views(file):
    with pytest.raises(ZeroDivisionError):
        with next(forebay.read(file)) as burst:
            packet = burst[0]
            1 / 0
    del packet
    with pytest.raises(BufferError):
        with next(forebay.read(file)) as burst:
            packet = burst[0]


def test_a_file_is_not_written_over_what_it_is_read_from(file):
    before = file.read_bytes()
    with pytest.raises(forebay.Invalid):
        forebay.write(file, forebay.read(file))
    assert file.read_bytes() == before


def test_nothing_is_written_after_a_torn_block():
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    file = forebay.Writer("/dev/full")
    file.write(bytes(60))
    with pytest.raises(forebay.InputOutput):
        file.flush()
    for call in (lambda: file.write(bytes(60)), file.flush, file.close):
        with pytest.raises(forebay.InputOutput, match="incomplete"):
            call()


def test_a_detached_burst_has_a_copy(file):
    burst = next(forebay.read(file))
    before = [bytes(packet) for packet in burst]
    burst.detach()
    assert not burst.is_borrowed and [bytes(packet) for packet in burst] == before


def test_numbers_out_of_range_are_errors(file):
    burst = next(forebay.read(file))
    for index in (len(burst), -len(burst) - 1, 1 << 62, -(1 << 63)):
        with pytest.raises(IndexError):
            burst[index]
    assert bytes(burst[-len(burst)]) == bytes(burst[0])
    for seconds in (-1.0, float("nan")):
        with pytest.raises(forebay.Invalid):
            forebay.capture("sim:rate=1bit", timeout=seconds)
    with pytest.raises(forebay.Invalid):
        forebay.capture("sim", snaplen=0)


def test_errors_have_a_class_a_code_and_errno(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        forebay.read(tmp_path / "missing.pcap")
    assert isinstance(raised.value, forebay.NotFound) and (raised.value.code, raised.value.errno) == (-7, 2)
    (tmp_path / "text").write_bytes(b"no capture file at all, only text")
    with pytest.raises(forebay.Error):
        forebay.read(tmp_path / "text")


def test_the_codes_are_those_of_the_library():
    from forebay import _errors, _forebay

    assert sorted(_errors._CLASSES) == sorted(_forebay._codes())


def test_a_damaged_file_returns_what_is_before_the_damage(file, tmp_path):
    whole = file.read_bytes()
    (tmp_path / "torn.pcapng").write_bytes(whole[: len(whole) - 700])
    packets = 0
    with pytest.raises(forebay.Error):
        for burst in forebay.read(tmp_path / "torn.pcapng"):
            packets += len(burst)
    assert 980 < packets < 1000


@pytest.mark.parametrize("name", ["b.pcapng", "b.pcap"])
def test_what_was_written_is_read_again(file, tmp_path, name):
    path = tmp_path / name
    with forebay.read(file) as capture:
        assert forebay.write(path, capture) == 1000

    def columns(path):
        with forebay.read(path) as capture:
            return [(b.time.tolist(), b.wire_length.tolist(), [bytes(p) for p in b]) for b in capture]

    assert [sum(column, []) for column in zip(*columns(path))] == [sum(column, []) for column in zip(*columns(file))]


def test_packets_are_written_from_bytes(tmp_path):
    path = tmp_path / "c.pcapng"
    with forebay.Writer(path, link_type=101) as file:
        file.write(b"E" * 40, 1_700_000_000_123_456_789, wire_length=99)
        file.write(bytearray(b"E" * 20), time=5)
        with pytest.raises(forebay.TooLong):
            file.write(bytes(2_000_000))
    with pytest.raises(forebay.Misuse):
        file.write(b"")
    burst = next(forebay.read(path))
    assert burst.time.tolist() == [1_700_000_000_123_456_789, 5] and burst.wire_length.tolist() == [99, 20]
    assert burst.interfaces[0]["link_type"] == 101
    with forebay.Writer(tmp_path / "empty.pcap"):
        pass
    assert list(forebay.read(tmp_path / "empty.pcap")) == []
    with pytest.raises(forebay.Unsupported):
        forebay.Writer(tmp_path / "a.pcap.gz")


def test_arrow_readers_take_packets(file):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(forebay.read(file))
    assert table.num_rows == 1000 and table.column("length").to_pylist() == [60] * 1000
    burst = next(forebay.read(file))
    batch = pyarrow.table(burst)
    assert [bytes(packet) for packet in burst] == batch.column("payload").to_pylist()
    # The bytes of the packets are where they are in the burst.
    (payload,) = batch.column("payload").chunks
    addresses = [buffer.address for buffer in payload.buffers() if buffer]
    assert numpy.frombuffer(burst.payload, numpy.uint8).ctypes.data in addresses
    with pytest.raises(BufferError):
        burst.release()


def test_an_arrow_reader_of_a_capture_has_its_time_limit_and_returns_the_ring():
    pyarrow = pytest.importorskip("pyarrow")
    # More packets than a ring of this size holds.
    with forebay.capture("sim:count=100000,clock=virtual", ring_bytes=1 << 20) as capture:
        table = pyarrow.table(capture)
    assert table.num_rows == 100_000 and sum(capture.counts["dropped"].values()) == 0
    with forebay.capture("sim:rate=1bit", timeout=0.01) as capture:
        begun = time.monotonic()
        with pytest.raises(Exception, match="time limit"):
            pyarrow.table(capture)
        assert time.monotonic() - begun < 5


def test_ctrl_c_ends_an_arrow_reader():
    pytest.importorskip("pyarrow")
    program = subprocess.Popen(
        [sys.executable, "-c", "import forebay, pyarrow\nc = forebay.capture('sim:rate=1bit')\nprint('ready', flush=True)\npyarrow.table(c)"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout.readline() == "ready\n"
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=20)
    assert program.returncode != 0


def test_polars_and_duckdb_take_packets(file):
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(forebay.read(file))["length"].sum() == 60_000
    duckdb = pytest.importorskip("duckdb")
    packets = forebay.read(file)  # noqa: F841, named in the query
    assert duckdb.sql("select count(*), sum(octet_length(payload)) from packets").fetchall() == [(1000, 60_000)]


def test_a_time_limit_ends_a_wait_and_the_capture_goes_on():
    with forebay.capture("sim:rate=20pps", timeout=0.001) as capture:
        with pytest.raises(TimeoutError):
            while True:
                next(capture)
        assert len(capture.next_burst(timeout=5)) > 0


def test_counts_so_far_are_there_while_a_capture_is_open(file):
    capture = forebay.read(file, "ip")
    assert capture.counts["counted"] == 0
    seen = len(next(capture))
    assert capture.counts["counted"] == seen > 0
    capture.close()
    assert capture.counts["counted"] == seen


def test_counts_are_there_while_another_thread_waits():
    capture = forebay.capture("sim:rate=20pps")
    seen, begun = [], threading.Event()

    def wait():
        begun.set()
        for burst in capture:
            seen.append(len(burst))

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    last = 0
    for _ in range(20):
        counts = capture.counts
        assert last <= counts["counted"] <= counts["received"]
        last = counts["counted"]
    capture.stop()
    thread.join()
    assert capture.counts["counted"] == sum(seen) >= last
    assert capture.close() == capture.counts


def test_stop_in_another_thread_ends_the_iteration():
    capture = forebay.capture("sim:rate=100pps")
    threading.Timer(0.05, capture.stop).start()
    packets = sum(len(burst) for burst in capture)
    counts = capture.close()
    assert counts["counted"] == packets and counts == capture.close()
    with pytest.raises(forebay.Misuse):
        next(capture)


def test_only_one_thread_at_a_time_uses_a_capture():
    capture = forebay.capture("sim:rate=1bit")
    begun, outcome = threading.Event(), []

    def wait():
        begun.set()
        while not outcome:
            try:
                outcome.append(capture.next_burst(timeout=20))
            except forebay.Busy:
                pass  # the other thread was there first
            except forebay.Error as error:
                outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    seen = set()
    while forebay.Busy not in seen and thread.is_alive():
        try:
            capture.next_burst(timeout=0)
        except forebay.Error as error:
            seen.add(type(error))
    assert forebay.Busy in seen
    capture.close()
    thread.join(10)
    assert not thread.is_alive()


def child(code, **options):
    """Runs a program in another interpreter."""
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)],
        capture_output=True, text=True, timeout=60, **options,
    )  # fmt: skip


def test_ctrl_c_ends_a_wait():
    program = subprocess.Popen(
        [sys.executable, "-c", "import forebay\nc = forebay.capture('sim:rate=1bit')\nprint('ready', flush=True)\nc.next_burst()\nc.next_burst(60)"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout.readline() == "ready\n"
    program.send_signal(signal.SIGINT)
    _, errors = program.communicate(timeout=20)
    assert program.returncode != 0 and "KeyboardInterrupt" in errors


def test_the_interpreter_exits_with_a_capture_running():
    done = child("""
        import forebay, threading
        capture = forebay.capture("sim:rate=1bit")
        began = threading.Event()
        def wait():
            began.set()
            capture.next_burst()
            capture.next_burst(3600)
        threading.Thread(target=wait, daemon=True).start()
        began.wait()
    """)
    assert done.returncode == 0, done.stderr


def test_a_forked_child_gets_an_exception():
    done = child("""
        import forebay, os
        capture = forebay.capture("sim:rate=100pps")
        burst = next(capture)
        pid = os.fork()
        if pid == 0:
            try:
                next(capture)
            except forebay.Misuse:
                raise SystemExit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert len(next(capture)) > 0
    """)
    assert done.returncode == 0, done.stderr


def test_a_forked_child_does_not_stop_the_capture_of_its_parent():
    done = child("""
        import forebay, os
        with forebay.capture("sim:rate=100pps", timeout=10) as capture:
            next(capture)
            pid = os.fork()
            if pid == 0:
                refused = 0
                for call in (capture.stop, capture.close, lambda: capture.__exit__(None, None, None)):
                    try:
                        call()
                    except forebay.Misuse:
                        refused += 1
                os._exit(refused)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
            for _ in range(5):
                assert len(next(capture)) > 0
    """)
    assert done.returncode == 0, done.stderr


def in_child(act):
    """The exit code of a forked child that runs it."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = act()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_reads_what_its_parent_cannot_give_back(file):
    of_file = next(forebay.read(file))
    capture = forebay.capture("sim:count=20000,clock=virtual")
    bursts = list(capture)
    in_ring = next((burst for burst in bursts if burst.is_borrowed), None)
    expected = bytes(of_file[0])

    def act():
        assert bytes(of_file[0]) == expected
        if in_ring is not None:
            with pytest.raises(forebay.Misuse):
                in_ring[0]
        return 7

    assert in_child(act) == 7
    if in_ring is not None:
        in_ring.detach()
        assert in_child(lambda: len(bytes(in_ring[0]))) == 60


def test_packets_of_an_interface():
    """On `lo`, if this user may capture there."""
    try:
        capture = forebay.capture("lo", "udp port 9", timeout=10)
    except forebay.NoPermission:
        pytest.skip("needs rights to capture on lo")
    import socket

    with capture, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(100):
            sender.sendto(b"forebay", ("127.0.0.1", 9))
        bursts, packets = [], 0
        while packets < 100:
            burst = next(capture)
            bursts.append(burst)
            packets += len(burst)
    del capture
    assert all(bytes(packet).endswith(b"forebay") for burst in bursts for packet in burst)


def test_the_stubs_name_what_there_is():
    import ast
    import pathlib

    stubs = ast.parse((pathlib.Path(forebay.__file__).parent / "__init__.pyi").read_text())
    named = {node.name: node for node in stubs.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert set(named) == set(forebay.__all__)
    for name, node in named.items():
        if isinstance(node, ast.ClassDef) and not issubclass(getattr(forebay, name), BaseException):
            public = {it for it in vars(getattr(forebay, name)) if not it.startswith("_")}
            stubbed = {it.name for it in node.body if isinstance(it, ast.FunctionDef) and not it.name.startswith("_")}
            assert public == stubbed, name
            assert getattr(forebay, name).__doc__, name
            assert all(getattr(getattr(forebay, name), it).__doc__ for it in public), name


def test_the_stubs_have_the_parameters_that_there_are():
    import ast
    import inspect
    import pathlib

    def stubbed(node):
        arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        defaults = len(node.args.defaults) + sum(default is not None for default in node.args.kw_defaults)
        return [it.arg for it in arguments if it.arg != "self"], defaults

    def real(function):
        parameters = [it for it in inspect.signature(function).parameters.values() if it.name != "self"]
        return [it.name for it in parameters], sum(it.default is not it.empty for it in parameters)

    stubs = ast.parse((pathlib.Path(forebay.__file__).parent / "__init__.pyi").read_text())
    checked = 0
    for node in stubs.body:
        if isinstance(node, ast.FunctionDef):
            assert stubbed(node) == real(getattr(forebay, node.name)), node.name
        elif isinstance(node, ast.ClassDef) and not issubclass(getattr(forebay, node.name), BaseException):
            cls = getattr(forebay, node.name)
            for it in node.body:
                is_property = isinstance(it, ast.FunctionDef) and any(getattr(d, "id", "") == "property" for d in it.decorator_list)
                if isinstance(it, ast.FunctionDef) and not is_property and (it.name == "__init__" or not it.name.startswith("_")):
                    assert stubbed(it) == real(cls if it.name == "__init__" else getattr(cls, it.name)), (node.name, it.name)
                    checked += 1
    assert checked > 40


def test_without_numpy_columns_are_memoryviews():
    done = child("""
        import sys
        sys.modules["numpy"] = None
        import forebay
        burst = next(forebay.capture("sim:count=10,clock=virtual"))
        assert (burst.time.format, burst.length.format, burst.direction.format) == ("q", "I", "B")
        assert list(burst.length) == [60] * len(burst) and bytes(burst[0])[12:14] == bytes([8, 0])
    """)
    assert done.returncode == 0, done.stderr
