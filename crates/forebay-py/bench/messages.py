"""Messages from one Python process to another: forebay.Queue, multiprocessing.Queue and iceoryx2, in the same run.

    pip install ./crates/forebay-py iceoryx2==0.10.0
    python crates/forebay-py/bench/messages.py [MESSAGES]

Every message has 64 bytes. "many" sends and receives up to 256 messages a call; the others send and receive one a call.
iceoryx2 has no call that waits for a message without polling: its receiver polls, and its sender waits when the subscriber's buffer is full.
"""

import multiprocessing
import os
import sys
import time

import forebay

MESSAGE = bytes(64)
NAME = f"bench-{os.getpid()}"
LIMIT = 20  # seconds, for programs of which one may fail


def one(queue, count):
    for _ in range(count):
        queue.send(MESSAGE)


def many(queue, count):
    burst = [MESSAGE] * 256
    for begin in range(0, count, 256):
        queue.send_many(burst[: count - begin])


def standard(queue, count):
    for _ in range(count):
        queue.put(MESSAGE)


def forebay_queue(send, receive):
    def run(count):
        with forebay.Queue.create(NAME, 1 << 20) as queue:
            try:
                return timed(send, queue, count, receive)
            finally:
                forebay.Queue.remove(NAME)

    return run


def receive_one(queue, count):
    for _ in range(count):
        queue.recv()


def receive_many(queue, count):
    while count:
        count -= len(queue.recv_many(min(count, 256)))


def timed(send, queue, count, receive):
    process = multiprocessing.get_context("spawn").Process(target=started, args=(send, queue, count))
    process.start()
    receive(queue, 1)  # it runs
    begun = time.perf_counter()
    receive(queue, count)
    rate = count / (time.perf_counter() - begun)
    process.join()
    return rate


def started(send, queue, count):
    send(queue, 1)
    send(queue, count)


def standard_queue(count):
    def receive(queue, count):
        for _ in range(count):
            queue.get()

    return timed(standard, multiprocessing.get_context("spawn").Queue(), count, receive)


def iceoryx2_service(name):
    import ctypes

    import iceoryx2

    class Message(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_uint8 * 64)]

    iceoryx2.set_log_level(iceoryx2.LogLevel.Error)
    node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
    service = node.service_builder(iceoryx2.ServiceName.new(name)).publish_subscribe(Message)
    service = service.subscriber_max_buffer_size(1024).enable_safe_overflow(False).open_or_create()
    return node, service, Message, iceoryx2


def iceoryx2_sender(name, count):
    node, service, message, iceoryx2 = iceoryx2_service(name)
    publisher = service.publisher_builder().backpressure_strategy(iceoryx2.BackpressureStrategy.RetryUntilDelivered).create()
    content = message()
    for _ in range(count + 1):  # the first one shows that it runs
        end = time.monotonic() + LIMIT
        while not publisher.send_copy(content):  # the subscriber is not connected yet, or gone
            if time.monotonic() > end:
                return


def iceoryx2_queue(count):
    name = f"{NAME}-{time.monotonic_ns()}"  # the end of a run before may still be there
    node, service, _, _ = iceoryx2_service(name)
    subscriber = service.subscriber_builder().buffer_size(1024).create()
    process = multiprocessing.get_context("spawn").Process(target=iceoryx2_sender, args=(name, count))
    process.start()

    def receive(left):
        end = time.monotonic() + LIMIT
        while left:
            if (sample := subscriber.receive()) is not None:
                bytes(sample.payload().contents.bytes)
                sample.delete()
                left -= 1
            elif time.monotonic() > end:
                process.kill()
                raise TimeoutError(f"no figure within {LIMIT} s")

    receive(1)
    begun = time.perf_counter()
    receive(count)
    rate = count / (time.perf_counter() - begun)
    process.join()
    return rate


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    base = None
    for name, run, part in (
        ("multiprocessing.Queue", standard_queue, 10),
        ("forebay.Queue", forebay_queue(one, receive_one), 1),
        ("forebay.Queue, many", forebay_queue(many, receive_many), 1),
        ("iceoryx2", iceoryx2_queue, 1),
    ):
        try:
            rate = max(run(count // part) for _ in range(3))
        except (ImportError, TimeoutError) as error:
            print(f"{name:22} skipped: {error}")
            continue
        base = base or rate
        print(f"{name:22} {rate:12,.0f} messages/s  {rate / base:6.1f} times multiprocessing.Queue", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(__file__))
    main()
