"""Queues, streams, rings, broadcasts and records."""

import asyncio
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading

import numpy
import pytest

import forebay

RECORD = numpy.dtype([("time", "u8"), ("key", "u4", 5), ("len", "u4")])


@pytest.fixture
def name():
    name = f"python-test-{os.getpid()}"
    yield name
    try:
        forebay.Queue.remove(name)
    except forebay.NotFound:
        pass


def test_messages_between_threads():
    queue = forebay.Queue(4096)
    received = []
    thread = threading.Thread(target=lambda: received.extend(queue))
    thread.start()
    messages = [bytes([n % 256]) * (n % 50) for n in range(5000)]
    for message in messages[:100]:
        queue.send(message)
    assert queue.send_many(messages[100:]) == 4900
    queue.close()
    thread.join()
    assert received == messages
    stats = queue.stats()
    assert stats["reserved"] == stats["received"] == 5000 and stats["queued"] == 0
    with pytest.raises(forebay.Closed):
        queue.send(b"late")
    with pytest.raises(forebay.Closed):
        queue.recv()


def test_a_queue_reports_full_empty_and_time_limits_apart():
    queue = forebay.Queue(4096, when_full="wait")
    for call in (queue.recv, queue.recv_many):
        with pytest.raises(forebay.Empty):
            call(timeout=0)
        with pytest.raises(forebay.TimedOut):
            call(timeout=0.001)
    sent = queue.send_many([b"x" * 100] * 100, timeout=0)
    assert 0 < sent < 100
    for send, message in ((queue.send, b"x" * 100), (queue.send_many, [b"x" * 100])):
        with pytest.raises(forebay.Full):
            send(message, timeout=0)
        with pytest.raises(forebay.TimedOut):
            send(message, timeout=0.001)
    with pytest.raises(forebay.TooLong):
        queue.send(bytes(1 << 20))
    assert len(queue.recv_many(7)) == 7 and queue.stats()["queued"] == sent - 7
    with pytest.raises(forebay.Invalid):
        queue.recv_many(0)
    refusing = forebay.Queue(4096, when_full="refuse")
    with pytest.raises(forebay.Full):
        for _ in range(100):
            refusing.send(b"x" * 100)
    dropping = forebay.Queue(4096, when_full="drop-oldest")
    for n in range(100):
        dropping.send(b"%100d" % n)
    assert dropping.stats()["dropped"] > 0
    for wrong in ({"when_full": "explode"}, {"capacity": 0}):
        with pytest.raises(forebay.Invalid):
            forebay.Queue(**wrong)


def square(queue):
    """In another process: answers each number with its square."""
    with queue, forebay.Queue.attach(queue.name + ".answers") as answers:
        for message in queue:
            answers.send(b"%d" % int(message) ** 2)
        answers.close()


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_messages_between_processes(name, method):
    with forebay.Queue.create(name) as queue, forebay.Queue.create(name + ".answers") as answers:
        try:
            # A forked child has to attach anew: pickling does that.
            queue_again = pickle.dumps(queue)
            context = multiprocessing.get_context(method)
            child = context.Process(target=square_of, args=(queue_again,))
            child.start()
            queue.send_many([b"%d" % n for n in range(1000)])
            queue.close()
            assert [int(answer) for answer in answers] == [n * n for n in range(1000)]
            child.join()
            assert child.exitcode == 0
        finally:
            forebay.Queue.remove(name + ".answers")


def square_of(queue):
    square(pickle.loads(queue))


def test_names_of_queues(name):
    queue = forebay.Queue.create(name)
    assert name in forebay.Queue.names() and queue.processes == 1 and queue.name == name
    with pytest.raises(FileExistsError):
        forebay.Queue.create(name)
    forebay.Queue.remove(name)
    with pytest.raises(FileNotFoundError):
        forebay.Queue.attach(name)
    with pytest.raises(forebay.Error):
        forebay.Queue.create("../up")
    with pytest.raises(forebay.Misuse):
        pickle.dumps(forebay.Queue())
    queue.detach()
    queue.detach()
    with pytest.raises(forebay.Misuse):
        queue.recv()


def test_a_killed_receiver_loses_nothing(name):
    with forebay.Queue.create(name) as queue:
        child = subprocess.Popen(
            [sys.executable, "-c", f"import forebay\nq = forebay.Queue.attach({name!r})\nprint(q.recv(), flush=True)\nq.recv()"],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        queue.send(b"first")
        assert child.stdout.readline() == "b'first'\n"
        child.kill()
        child.communicate()
        queue.send(b"second")
        assert queue.recv(10) == b"second" and queue.stats()["received"] == 2


def test_a_forked_child_cannot_use_what_it_inherited():
    queue, stream = forebay.Queue(), forebay.Stream()
    queue.send(b"kept")
    pid = os.fork()
    if pid == 0:
        refused = 0
        for call in (queue.recv, queue.close, queue.detach, stream.read, stream.close):
            try:
                call()
            except forebay.Misuse:
                refused += 1
        del queue, stream
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
    assert queue.recv(0) == b"kept"


def test_tasks_receive_and_a_cancelled_one_loses_nothing():
    queue = forebay.Queue()

    async def main():
        messages = aiter(queue)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(messages), 0.01)
        for n in range(10):
            queue.send(b"%d" % n)
        queue.close()
        return [int(message) async for message in messages]

    assert asyncio.run(main()) == list(range(10))

    async def bursts():
        capture = forebay.capture("sim:count=1000,clock=virtual")
        return sum([len(burst) async for burst in capture])

    assert asyncio.run(bursts()) == 1000


def test_a_time_limit_around_async_for_loses_no_message():
    broadcast = forebay.Broadcast()
    for source, send in ((forebay.Queue(), None), (broadcast.reader(), broadcast.send)):

        async def main():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    async for _ in source:
                        pass
            (send or source.send)(b"kept")
            assert source.recv(5) == b"kept"
            # A message wakes a task that waits.
            asyncio.get_running_loop().call_later(0.02, send or source.send, b"waking")
            async for message in source:
                return message

        assert asyncio.run(main()) == b"waking"


def test_two_tasks_share_a_queue_and_not_an_iterator():
    queue = forebay.Queue()

    async def main():
        messages = aiter(queue)
        tasks = [asyncio.ensure_future(anext(it)) for it in (messages, aiter(queue))]
        await asyncio.sleep(0)
        with pytest.raises(forebay.Busy):
            await anext(messages)
        queue.send_many([b"1", b"2"])
        return sorted(await asyncio.gather(*tasks))

    assert asyncio.run(main()) == [b"1", b"2"]


def test_a_burst_that_no_task_took_is_next():
    async def main(capture):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                async for _ in capture:
                    pass
        return [burst async for burst in capture]

    with forebay.capture("sim:count=40,rate=200pps") as capture:
        asyncio.run(main(capture))
    # All were given to a reader, or to the loop that was cancelled.
    assert capture.counts["unread"] == 0 and capture.counts["received"] == 40


def test_two_cancelled_tasks_of_a_capture_lose_no_burst():
    async def main(capture):
        times, iterators = [], [aiter(capture), aiter(capture)]
        for _ in range(5):
            tasks = [asyncio.ensure_future(anext(it)) for it in iterators]
            await asyncio.wait(tasks, timeout=0.02)
            for task in tasks:
                task.cancel()
            for found in await asyncio.gather(*tasks, return_exceptions=True):
                times.extend(found.time.tolist() if isinstance(found, forebay.Burst) else [])
        del tasks, iterators
        async for burst in capture:
            times.extend(burst.time.tolist())
        return times

    with forebay.capture("sim:count=60,rate=200pps") as capture:
        times = asyncio.run(main(capture))
    assert len(times) == len(set(times)) == 60


def test_a_task_waits_at_an_iterator_of_bursts_and_a_second_one_does_not():
    async def main(capture):
        bursts = aiter(capture)
        first = asyncio.ensure_future(anext(bursts))
        await asyncio.sleep(0)
        with pytest.raises(forebay.Busy):
            await anext(bursts)
        first.cancel()

    with forebay.capture("sim:rate=1bit") as capture:
        asyncio.run(main(capture))


def test_a_task_waits_for_packets_without_a_thread_and_has_the_time_limit_of_the_capture():
    async def main(capture):
        bursts = aiter(capture)
        with pytest.raises(forebay.TimedOut):
            while True:
                await anext(bursts)
        first = asyncio.ensure_future(anext(bursts))
        threads = threading.active_count()
        await asyncio.sleep(0)
        assert threading.active_count() == threads == 1
        first.cancel()
        # Two tasks at one capture: a stop wakes both.
        tasks = [asyncio.ensure_future(anext(aiter(capture))) for _ in range(2)]
        await asyncio.sleep(0)
        capture.stop()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(it, (forebay.Burst, StopAsyncIteration)) for it in outcomes), outcomes

    with forebay.capture("sim:rate=3pps", timeout=0.01) as capture:
        asyncio.run(main(capture))


def test_tasks_read_a_file_and_packets_of_an_interface(tmp_path):
    async def packets(capture, enough):
        seen = 0
        async for burst in capture:
            seen += len(burst)
            if seen >= enough:
                return seen
        return seen

    path = tmp_path / "a.pcapng"
    with forebay.capture("sim:count=20000,clock=virtual") as capture:
        forebay.write(path, capture)

    async def both():
        return await asyncio.gather(*(packets(forebay.read(path), 1 << 30) for _ in range(2)))

    assert asyncio.run(both()) == [20_000, 20_000]
    try:
        capture = forebay.capture("lo", "udp port 9", timeout=20)
    except forebay.NoPermission:
        pytest.skip("needs rights to capture on lo")

    async def sent_while_waiting():
        waiting = asyncio.ensure_future(packets(capture, 100))
        await asyncio.sleep(0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(100):
                sender.sendto(b"forebay", ("127.0.0.1", 9))
        return await waiting

    with capture:
        assert asyncio.run(sent_while_waiting()) >= 100


def test_a_failure_that_a_cancelled_task_met_is_raised_later(tmp_path):
    path = tmp_path / "a.pcapng"
    with forebay.capture("sim:count=1000,clock=virtual") as capture:
        forebay.write(path, capture)
    path.write_bytes(path.read_bytes()[:-700])

    async def main(capture):
        seen, threads = 0, threading.active_count()
        while True:
            task = asyncio.ensure_future(anext(aiter(capture)))
            await asyncio.sleep(0)
            task.cancel()
            (found,) = await asyncio.gather(task, return_exceptions=True)
            while threading.active_count() > threads:
                await asyncio.sleep(0.001)  # its thread reads on
            if not isinstance(found, asyncio.CancelledError):
                return seen, found
            try:
                burst = capture.next_burst(0)
            except forebay.Damaged as failure:
                return seen, failure
            if burst is None:
                return seen, "it ends as if it were complete"
            seen += len(burst)

    with forebay.read(path) as capture:
        seen, end = asyncio.run(main(capture))
    assert isinstance(end, forebay.Damaged) and 980 < seen < 1000, (seen, end)


def test_tasks_wait_at_a_named_pipe_without_a_thread(tmp_path):
    path, pipe = tmp_path / "a.pcapng", tmp_path / "pipe"
    with forebay.capture("sim:count=100,clock=virtual") as capture:
        forebay.write(path, capture)
    content = path.read_bytes()
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, content[:5000])

    async def main(capture):
        seen, threads = 0, threading.active_count()
        for _ in range(3):
            try:
                async with asyncio.timeout(0.02):
                    async for burst in capture:
                        seen += len(burst)
            except TimeoutError:
                pass
            assert threading.active_count() == threads
        assert 0 < seen < 100
        os.write(writer, content[5000:])
        os.close(writer)
        async for burst in capture:
            seen += len(burst)
        return seen

    with forebay.read(pipe) as capture:
        assert asyncio.run(main(capture)) == 100


def test_a_close_ends_the_waits_of_tasks_and_threads():
    broadcast = forebay.Broadcast()
    for make, end in (
        (forebay.Queue, lambda it: it.detach()),
        (broadcast.reader, lambda it: it.close()),
        (lambda: forebay.capture("sim:rate=1bit"), lambda it: it.close()),
    ):

        async def main(source):
            tasks = [asyncio.ensure_future(anext(aiter(source))) for _ in range(2)]
            await asyncio.sleep(0)
            end(source)
            return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)

        for outcome in asyncio.run(main(make())):
            assert isinstance(outcome, (forebay.Misuse, forebay.Burst)), outcome

        source, outcomes, begun = make(), [], threading.Event()
        receive = getattr(source, "recv", None) or source.next_burst

        def wait():
            begun.set()
            try:
                while receive() is not None:
                    pass
            except forebay.Misuse as failure:
                outcomes.append(failure)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        begun.wait()
        end(source)
        thread.join(60)
        assert not thread.is_alive()
        with pytest.raises(forebay.Misuse):
            receive(0)


def test_threads_leave_a_queue_that_others_use():
    queue = forebay.Queue(4096)
    stop = threading.Event()

    def use():
        while not stop.is_set():
            try:
                queue.send(b"x", 0)
                queue.recv(0)
            except (forebay.Full, forebay.Empty, forebay.TimedOut):
                pass
            except forebay.Misuse:
                return

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    queue.detach()
    stop.set()
    for thread in threads:
        thread.join()
    with pytest.raises(forebay.Misuse):
        queue.send(b"late")


def test_a_burst_that_was_found_and_not_taken_is_unread():
    capture = forebay.capture("sim:count=10,clock=virtual")
    capture._find()
    capture._find()
    counts = capture.close()
    assert counts["received"] == 10 and counts["unread"] > 0
    assert counts["received"] == counts["unread"] + counts["counted"] + sum(counts["dropped"].values())


def test_asyncio_ends_while_a_task_waits():
    async def main():
        waiting = asyncio.ensure_future(anext(aiter(forebay.Queue())))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(main())


def test_ctrl_c_ends_a_wait_for_a_message():
    child = subprocess.Popen(
        [sys.executable, "-c", "import forebay\nq = forebay.Queue()\nprint('ready', flush=True)\nq.recv()"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert child.returncode != 0 and "KeyboardInterrupt" in errors


def test_a_stream_carries_bytes_and_ends():
    stream = forebay.Stream(16)
    read = bytearray()

    def reader():
        while chunk := stream.read(5):
            read.extend(chunk)

    thread = threading.Thread(target=reader)
    thread.start()
    with stream:
        assert stream.write(b"0123456789" * 100) == 1000
    thread.join()
    assert read == b"0123456789" * 100
    with pytest.raises(forebay.Misuse):
        stream.write(b"late")
    failed = forebay.Stream()
    failed.write(b"abc")
    failed.fail()
    assert failed.read() == b"abc"
    with pytest.raises(forebay.InputOutput):
        failed.read()


def test_a_stream_reports_full_empty_and_time_limits_apart():
    stream = forebay.Stream(4)
    with pytest.raises(forebay.Empty):
        stream.read(timeout=0)
    with pytest.raises(forebay.TimedOut):
        stream.read(timeout=0.001)
    assert stream.write(b"abcdef", timeout=0) == 4 and stream.write(b"") == 0
    with pytest.raises(forebay.Full):
        stream.write(b"e", timeout=0)
    with pytest.raises(forebay.TimedOut):
        stream.write(b"e", timeout=0.001)
    with pytest.raises(forebay.Invalid):
        stream.read(0)
    with pytest.raises(forebay.Invalid):
        forebay.Stream(0)


def test_only_one_thread_at_a_time_reads():
    stream = forebay.Stream()
    outcomes = []

    def read():
        try:
            outcomes.append(bytes(stream.read()))
        except forebay.Busy:
            outcomes.append("busy")

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    while not outcomes:
        threads[0].join(0.01)
    stream.write(b"one")
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == ["b'one'", "busy"]


def gathered(receive, threads=4):
    """What some threads receive that take turns at one reader, until `receive` returns None."""
    found = [[] for _ in range(threads)]

    def run(mine):
        while True:
            try:
                if (some := receive()) is None:
                    return
                mine.append(some)
            except forebay.Busy:
                pass
            except (forebay.Closed, forebay.Misuse):
                return

    running = [threading.Thread(target=run, args=(mine,)) for mine in found]
    for thread in running:
        thread.start()
    return running, found


def test_threads_that_take_turns_at_a_reader_get_each_message_once():
    broadcast = forebay.Broadcast(1 << 20, 8192)
    reader = broadcast.reader()
    running, found = gathered(lambda: reader.recv())
    sent = [b"%d" % n for n in range(4000)]
    for message in sent:
        broadcast.send(message)
    broadcast.close()
    for thread in running:
        thread.join()
    assert sorted(sum(found, [])) == sorted(sent)


def test_threads_that_take_turns_at_a_ring_get_each_element_once():
    ring = forebay.Ring(8, "u4")
    running, found = gathered(lambda: ring.pop(1))
    for begin in range(0, 1000, 4):
        ring.push(numpy.arange(begin, begin + 4, dtype="u4"))
    ring.close()
    for thread in running:
        thread.join()
    # None of them is empty: that would be the end of a stream.
    assert all(len(some) == 1 for mine in found for some in mine)
    assert sorted(int(some[0]) for mine in found for some in mine) == list(range(1000))


def test_a_ring_carries_elements_of_numpy():
    ring = forebay.Ring(100, RECORD)
    records = numpy.zeros(1000, RECORD)
    records["time"] = numpy.arange(1000)
    records["key"] = 7
    popped = []

    def consumer():
        while (some := ring.pop(30)) is not None:
            popped.append(some)

    thread = threading.Thread(target=consumer)
    thread.start()
    assert ring.push(records) == 1000
    ring.close()
    thread.join()
    assert (numpy.concatenate(popped) == records).all() and popped[0].dtype == RECORD
    with pytest.raises(forebay.Invalid):
        forebay.Ring(10, "f8").push(numpy.zeros(3, "f4"))
    with pytest.raises(forebay.Invalid):
        forebay.Ring(10, "O")
    plain = forebay.Ring(3, 8)
    assert plain.push(bytes(32), timeout=0) == 3 and len(plain.pop()) == 24
    with pytest.raises(forebay.Invalid):
        plain.push(b"123")
    with pytest.raises(forebay.Invalid):
        forebay.Ring(1 << 62, 8)
    strided = forebay.Ring(10, "i8")
    strided.push(numpy.arange(10)[::2])
    assert strided.pop().tolist() == [0, 2, 4, 6, 8]


def test_a_broadcast_reaches_all_readers_and_counts_what_they_lose():
    broadcast = forebay.Broadcast(1 << 16, 64)
    quick, slow = broadcast.reader(), broadcast.reader()
    with pytest.raises(forebay.Empty):
        quick.recv(timeout=0)
    with pytest.raises(forebay.TimedOut):
        quick.recv(timeout=0.001)
    for n in range(1000):
        assert broadcast.send(b"%d" % n) == n
        assert quick.recv() == b"%d" % n
    broadcast.send(bytes(5000))  # longer than the first buffer
    assert quick.recv() == bytes(5000)
    broadcast.close()
    with slow:
        left = list(slow)
        lost = slow.lost
    with pytest.raises(forebay.Misuse):
        slow.recv()
    assert lost > 0 and lost + len(left) == 1001 and quick.lost == 0
    with pytest.raises(forebay.Closed):
        quick.recv()
    with pytest.raises(forebay.Misuse):
        broadcast.send(b"late")


def test_a_broadcast_is_read_in_another_process():
    broadcast = forebay.Broadcast()
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(
        [sys.executable, "-c", """if True:
            import forebay, os, socket
            connection = socket.socket(fileno=0)
            _, (fd,), _, _ = socket.recv_fds(connection, 1, 1)
            reader = forebay.BroadcastReader(fd)
            os.close(fd)
            connection.send(b"attached")
            print(list(reader), reader.lost)
        """],
        stdin=theirs, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    socket.send_fds(ours, [b"m"], [broadcast.fileno()])
    assert ours.recv(100) == b"attached"
    broadcast.send(b"one")
    broadcast.send(b"two")
    broadcast.close()
    out, _ = child.communicate(timeout=20)
    assert out == "[b'one', b'two'] 0\n"
    ours.close(), theirs.close()
    with pytest.raises(forebay.Error):
        forebay.BroadcastReader(0)
    with pytest.raises(forebay.NotFound):
        forebay.BroadcastReader(-1)


def lanes(hub, count, capacity=4096):
    """Lanes to a hub in this process, and the numbers of their senders."""
    made = []
    for _ in range(count):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            thread = threading.Thread(target=lambda: made.append(forebay.Lane(theirs, capacity, 60)))
            thread.start()
            peer = hub.accept(ours, 60)
            thread.join()
        made[-1] = (made[-1], peer)
    return made


def test_lanes_carry_messages_to_a_hub():
    hub = forebay.Hub(max_peers=3, max_lane_bytes=1 << 16)
    (first, one), (second, two), (third, three) = lanes(hub, 3)
    assert (one, two, three) == (0, 1, 2)
    with pytest.raises(forebay.Empty):
        hub.recv(0)
    with pytest.raises(forebay.TimedOut):
        hub.recv(0.001)
    with pytest.raises(forebay.TooLong):
        first.send(bytes(first.largest + 1))
    sent = 0
    with pytest.raises(forebay.Full):
        while True:
            first.send(bytes([sent]) * 100, 0)
            sent += 1
    with pytest.raises(forebay.TimedOut):
        first.send(bytes(100), 0.001)
    second.send(bytes(3000))
    second.close()
    with pytest.raises(forebay.Misuse):
        second.send(b"late")
    received = {one: [], two: []}
    for _ in range(sent + 2):
        peer, message = hub.recv(60)
        received[peer].append(message)
    assert received[one] == [bytes([n]) * 100 for n in range(sent)]
    message, end = received[two]
    assert message == bytes(3000) and isinstance(end, forebay.Closed)
    hub.expel(three)
    with pytest.raises(forebay.NotFound):
        hub.expel(three)
    with pytest.raises(forebay.Closed):
        while True:
            third.send(b"x", 60)
    hub.close()
    for call in (hub.recv, lambda: next(hub)):
        with pytest.raises((forebay.Closed, StopIteration)):
            call()
    with pytest.raises(forebay.Closed):
        while True:
            first.send(b"x", 60)
    for wrong in (-1, "text"):
        with pytest.raises((forebay.Invalid, AttributeError)):
            forebay.Lane(wrong)
    with pytest.raises(forebay.Error):
        forebay.Lane(1 << 20)


def test_threads_and_tasks_wait_at_a_hub():
    hub = forebay.Hub()
    ((lane, peer),) = lanes(hub, 1)
    received = []
    thread = threading.Thread(target=lambda: received.extend(hub))
    thread.start()
    for n in range(1000):
        lane.send(b"%d" % n)  # waits for room
    lane.close()
    while len(received) < 1001 and thread.is_alive():
        thread.join(0.01)
    hub.close()
    thread.join()
    assert received[:1000] == [(peer, b"%d" % n) for n in range(1000)] and isinstance(received[1000][1], forebay.Closed)

    async def main():
        hub = forebay.Hub()
        ((lane, peer),) = lanes(hub, 1)
        messages = aiter(hub)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(messages), 0.01)
        asyncio.get_running_loop().call_later(0.02, lane.send, b"waking")
        assert await anext(messages) == (peer, b"waking")
        asyncio.get_running_loop().call_later(0.02, hub.close)
        assert [message async for message in messages] == []

    asyncio.run(main())


def test_records_are_appended_and_read_as_a_structured_array(tmp_path):
    path = tmp_path / "log.rec"
    records = numpy.zeros(1000, RECORD)
    records["time"] = numpy.arange(1000)
    with forebay.Appender(path) as log:
        assert log.found == 0 and log.append_array(records[:999]) == 999
        log.append(records[999])
        log.flush(durable=True)
        assert log.counts() == {"accepted": 1000, "written": 1000, "durable": 1000}
        with pytest.raises(forebay.TooLong):
            log.append(bytes(1 << 20))
    with pytest.raises(forebay.Misuse):
        log.append(b"late")
    with forebay.Appender(path) as log:
        assert log.found == 1000
    found, cut = forebay.read_records(path, RECORD)
    assert (found == records).all() and cut is None
    with pytest.raises(forebay.Invalid):
        forebay.read_records(path, "u8")
    path.write_bytes(path.read_bytes()[:-10])
    found, cut = forebay.read_records(path)
    assert len(found) < 1000 and "byte" in cut


def test_a_killed_program_leaves_whole_records(tmp_path):
    path = tmp_path / "log.rec"
    child = subprocess.Popen(
        [sys.executable, "-c", f"""if True:
            import forebay
            log = forebay.Appender({str(path)!r})
            for n in range(1000):
                log.append(b"%d" % n)
            log.flush()
            print("written", flush=True)
            while True:
                log.append(b"more")
        """],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline() == "written\n"
    child.kill()
    child.communicate()
    found, _ = forebay.read_records(path)
    assert found[:1000] == [b"%d" % n for n in range(1000)] and set(found[1000:]) <= {b"more"}
