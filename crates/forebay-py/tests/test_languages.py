"""Programs in C, C++ and Rust at the other end of a queue and of lanes, with one of the two killed; and shares of the command's captures.

The environment variable FOREBAY_BUILT names the folder in which cargo has built the library for C and the command.
"""

import itertools
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import threading

import pytest

import forebay

CRATE = pathlib.Path(__file__).parents[2] / "forebay-c"
NUMBER = struct.Struct("=Q")
END = (1 << 64) - 1


started = []


def start(*arguments, **options):
    """Starts a program, which ends with its test."""
    started.append(subprocess.Popen(arguments, **options))
    return started[-1]


@pytest.fixture(autouse=True)
def ended():
    yield
    while started:
        child = started.pop()
        child.kill()
        child.wait()


def built(name):
    """A file that cargo built."""
    folder = pathlib.Path(os.environ.get("FOREBAY_BUILT", "/nonexistent"))
    for path in (folder / name, folder / "deps" / name):
        if path.exists():
            return path
    pytest.skip(f"needs {name}: FOREBAY_BUILT names the folder in which cargo built it")


def compiled(compiler, language, source, folder):
    """A program in C or C++, linked to the library that cargo built."""
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    library = built("libforebay_c.so")
    for name in ("libforebay.so", "libforebay.so.0"):
        (folder / name).symlink_to(library)
    program = folder / pathlib.Path(source).stem
    subprocess.run(
        [compiler, "-x", language, CRATE / source, "-I", CRATE / "include", "-o", program,
         f"-L{folder}", "-lforebay", f"-Wl,-rpath,{folder}"],
        check=True,
    )  # fmt: skip
    return program


class Compiled:
    """The program `peer.c`, in C or in C++."""

    def __init__(self, compiler, language, folder):
        self.program = compiled(compiler, language, "tests/peer.c", folder)

    def send(self, name, first, count):
        return start(self.program, "send", name, str(first), str(count))

    def receive(self, name):
        return start(self.program, "receive", name, "0", stdout=subprocess.PIPE)

    def numbers(self, receives):
        return map(int, receives.stdout)


class Command:
    """The command `forebay queue`, which is written in Rust. Each record is a number, preceded by its length."""

    def __init__(self):
        self.program = built("forebay")

    def send(self, name, first, count):
        sends = start(self.program, "queue", "send", "--framed", name, stdin=subprocess.PIPE)

        def feed():
            try:
                with sends.stdin as records:
                    for number in range(first, first + count):
                        records.write(struct.pack(">I", 8) + NUMBER.pack(number))
            except BrokenPipeError:
                pass  # it was killed

        threading.Thread(target=feed, daemon=True).start()
        return sends

    def receive(self, name):
        return start(self.program, "queue", "recv", "--framed", name, stdout=subprocess.PIPE)

    def numbers(self, receives):
        while len(record := receives.stdout.read(12)) == 12:
            yield NUMBER.unpack(record[4:])[0]


@pytest.fixture(params=["C", "C++", "Rust"])
def peer(request, tmp_path):
    match request.param:
        case "C":
            return Compiled("gcc", "c", tmp_path)
        case "C++":
            return Compiled("g++", "c++", tmp_path)
        case "Rust":
            return Command()


@pytest.fixture
def queue():
    name = f"python-peer-{os.getpid()}"
    with forebay.Queue.create(name) as queue:
        yield queue
    forebay.Queue.remove(name)


def python(program, queue):
    """Runs a program in another interpreter, where `queue` is the queue."""
    begin = f"import forebay, struct\nnumber = struct.Struct('=Q')\nqueue = forebay.Queue.attach({queue.name!r})\n"
    return start(sys.executable, "-c", begin + program, stdout=subprocess.PIPE)


def send(queue, numbers):
    assert queue.send_many([NUMBER.pack(number) for number in numbers], timeout=30) == len(numbers)


def killed(child, printed):
    """Kills a program, and returns how many more numbers it had printed."""
    child.kill()
    more = sum(1 for _ in printed)
    child.communicate()
    return more


def complete(queue, printed, end):
    """Nothing but the message that a killed receiver had in its hands is missing, and nothing is there twice."""
    missing, found = set(range(printed + 1, end)), set()
    while missing:
        number = NUMBER.unpack(queue.recv(30))[0]
        assert number not in found and number < end
        found.add(number)
        missing.discard(number)


def test_a_python_process_and_another_language_talk_both_ways(peer, queue):
    receives = peer.receive(queue.name)
    send(queue, range(1000))
    printed = peer.numbers(receives)
    assert list(itertools.islice(printed, 1000)) == list(range(1000))
    # A killed receiver: the rest is there for the next one. A pipe does not hold all of it.
    send(queue, range(1000, 30_000))
    assert list(itertools.islice(printed, 500)) == list(range(1000, 1500))
    complete(queue, 1500 + killed(receives, printed), 30_000)
    # A killed sender: what it has sent arrives once and in order, and the queue goes on.
    first = 1_000_000
    sends = peer.send(queue.name, first, 10**12)
    received = (NUMBER.unpack(queue.recv(30))[0] for _ in itertools.count())
    received = filter(lambda number: number >= first, received)  # the killed receiver's are delivered again at any time
    assert list(itertools.islice(received, 5000)) == list(range(first, first + 5000))
    sends.kill()
    sends.wait()
    sender = threading.Thread(target=queue.send, args=(NUMBER.pack(END), 30))
    sender.start()
    up_to_end = itertools.takewhile(lambda number: number != END, received)
    assert all(number == at for at, number in enumerate(up_to_end, first + 5000))
    sender.join()


def test_another_language_goes_on_when_a_python_sender_is_killed(peer, queue):
    sends = python("n = 0\nwhile queue.send_many([number.pack(m) for m in range(n, n + 100)]):\n    n += 100", queue)
    receives = peer.receive(queue.name)
    printed = peer.numbers(receives)
    assert list(itertools.islice(printed, 10_000)) == list(range(10_000))
    sends.kill()
    sends.communicate()
    sender = threading.Thread(target=queue.send, args=(NUMBER.pack(END), 30))
    sender.start()
    assert all(number == at for at, number in enumerate(itertools.takewhile(lambda number: number != END, printed), 10_000))
    sender.join()


def test_another_language_goes_on_when_a_python_receiver_is_killed(peer, queue):
    receives = python("while True: print(number.unpack(queue.recv())[0], flush=True)", queue)
    sends = peer.send(queue.name, 0, 30_000)
    printed = map(int, receives.stdout)
    assert list(itertools.islice(printed, 500)) == list(range(500))
    complete(queue, 500 + killed(receives, printed), 30_000)
    assert sends.wait(30) == 0


@pytest.mark.parametrize("language", ["C", "C++"])
def test_lanes_end_with_the_process_at_their_other_end(language, tmp_path):
    program = Compiled(*{"C": ("gcc", "c"), "C++": ("g++", "c++")}[language], tmp_path).program
    hub = forebay.Hub()

    def peer(*role, **options):
        """Our end of a socket, and a program that has the other one as its standard input."""
        ours, theirs = socket.socketpair()
        with theirs:
            return ours, start(program, *role, stdin=theirs, **options)

    def numbers():
        while True:
            _, message = hub.recv(60)
            if isinstance(message, forebay.Error):
                return message
            yield NUMBER.unpack(message)[0]

    # Senders: one that ends, and one that is killed.
    ours, sends = peer("lane", "7", "1000")
    with ours:
        hub.accept(ours, 60)
    assert list(numbers()) == list(range(7, 1007)) and sends.wait(60) == 0
    ours, sends = peer("lane", "0", str(10**12), stderr=subprocess.DEVNULL)
    with ours:
        hub.accept(ours, 60)
    received = numbers()
    assert list(itertools.islice(received, 20_000)) == list(range(20_000))
    sends.kill()
    assert all(number == at for at, number in enumerate(received, 20_000))
    # Receivers: one that gets all, and one that is killed.
    for is_killed in (False, True):
        ours, receives = peer("hub", stdout=subprocess.PIPE)
        with ours:
            lane = forebay.Lane(ours, 1 << 16, 60)
        for number in range(1000):
            lane.send(NUMBER.pack(number), 60)
        assert list(map(int, itertools.islice(receives.stdout, 1000))) == list(range(1000))
        if is_killed:
            receives.kill()
            with pytest.raises(forebay.Closed):
                while True:
                    lane.send(NUMBER.pack(END), 60)
        lane.close()
        assert receives.wait(60) == (-9 if is_killed else 0)


def test_a_hub_receives_from_a_program_in_rust_until_it_crashes(tmp_path):
    hub, path = forebay.Hub(), str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        for worker, count in (("0", 5), ("1", 3)):  # the second one aborts
            works = start(built("examples/reports"), path, worker, stderr=subprocess.DEVNULL)
            with listener.accept()[0] as connected:
                peer = hub.accept(connected, 60)
            expected = [(peer, b"task %d of worker %s is done" % (number, worker.encode())) for number in range(count)]
            assert [hub.recv(60) for _ in range(count)] == expected
            ended, reason = hub.recv(60)
            assert ended == peer and isinstance(reason, forebay.Closed) and ("process ended" in str(reason)) == (worker == "1")
            assert works.wait(60) == (-6 if worker == "1" else 0)


def test_a_hub_in_rust_receives_from_lanes_in_python_also_if_one_side_is_killed(tmp_path):
    path = str(tmp_path / "socket")
    hub = start(built("examples/reports"), path, stdout=subprocess.PIPE, text=True)
    assert next(hub.stdout) == f"listening at {path}\n"

    def connected():
        """The hub's name of a lane that has connected."""
        return next(hub.stdout).removesuffix(" is connected\n")

    def lane():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            return forebay.Lane(connection, 1 << 16, 60), connected()

    finite, first = lane()
    for number in range(1000):
        finite.send(b"%d" % number, 60)
    finite.close()
    program = """if True:
        import forebay, itertools, socket, sys
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(sys.argv[1])
        lane = forebay.Lane(connection, 1 << 16, 60)
        for number in itertools.count():
            lane.send(b"%d" % number)
    """
    endless = start(sys.executable, "-c", program, path, stderr=subprocess.DEVNULL)
    second = connected()
    last, third = lane()
    assert len({first, second, third}) == 3
    # What each has sent arrives in order, and the hub knows how each has ended.
    received, endings = {first: 0, second: 0}, {}
    while len(endings) < 2:
        line = next(hub.stdout).rstrip("\n")
        if " is gone: " in line:
            peer, ending = line.split(" is gone: ")
            endings[peer] = ending
            continue
        peer, number = line.split(": ")
        assert int(number) == received[peer] and peer not in endings
        received[peer] += 1
        if received[second] == 5000:
            endless.kill()
    assert received[first] == 1000 and received[second] >= 5000
    assert endings == {first: "it closed its end", second: "its process ended"}
    # Without the hub, the remaining lane ends.
    last.send(b"0", 60)
    assert next(hub.stdout) == f"{third}: 0\n"
    hub.kill()
    with pytest.raises(forebay.Closed):
        while True:
            last.send(b"1", 60)


def test_the_examples_in_c_and_python_share_a_queue(tmp_path):
    jobs = compiled("gcc", "c", "examples/jobs.c", tmp_path)
    name = f"python-jobs-{os.getpid()}"
    subprocess.run([jobs, "give", name, "one", "two"], check=True)
    try:
        example = CRATE.with_name("forebay-py") / "examples/jobs.py"
        done = subprocess.run([sys.executable, example, name], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout == "one\ntwo\n", done.stderr
    finally:
        forebay.Queue.remove(name)


@pytest.fixture
def shared(tmp_path):
    """A capture of the command that shares its packets, and writes them."""
    name, path = f"python-{os.getpid()}", tmp_path / "shared.pcapng"
    line = f"capture -i sim:rate=20kpps,host=none,ring=1000000 --share {name} -w {path}"
    capture = start(built("forebay"), *line.split(), stderr=subprocess.PIPE, text=True)
    lines = iter(capture.stderr)
    assert any("sharing as" in line for line in lines)
    threading.Thread(target=lambda: list(lines), daemon=True).start()
    return capture, name, path


def packets(burst):
    return [bytes(packet) for packet in burst]


def test_a_share_is_tapped_until_its_capture_ends(shared):
    capture, name, path = shared
    with forebay.capture(f"share:{name}", timeout=30) as tap, forebay.capture(f"share:{name}", "tcp", timeout=30) as none:
        tapped = packets(next(tap))
        capture.terminate()
        for burst in tap:
            tapped.extend(packets(burst))
        assert list(none) == []
    assert capture.wait(30) == 0
    # Each of the packets that the capture wrote after the tap began, or a count of it.
    counts = tap.counts
    assert counts["received"] == counts["counted"] + counts["dropped"]["overrun"] and counts["counted"] == len(tapped)
    assert none.counts["received"] == none.counts["filtered"] + none.counts["dropped"]["overrun"] > 0
    with forebay.read(path) as file:
        written = [packet for burst in file for packet in packets(burst)]
    assert written[-len(tapped) :] == tapped or counts["dropped"]["overrun"] > 0


def test_a_tap_of_a_killed_capture_raises_after_its_last_packet(shared):
    capture, name, _ = shared
    seen = 0
    with forebay.capture(f"share:{name}", timeout=30) as tap:
        seen += len(next(tap))
        capture.kill()
        with pytest.raises(forebay.Error, match="was killed"):
            for burst in tap:
                seen += len(burst)
    assert tap.counts["counted"] == seen
    with pytest.raises(forebay.NotFound):
        forebay.capture("share:python-no-such-share")
