"""`async for` over what can be waited for."""

import asyncio
import queue
import threading
import time

from ._errors import Busy, Closed, Empty, TimedOut

_SLICE = 0.05  # seconds after which a thread notices that its iterator is gone


def _wake(future):
    if not future.done():
        future.set_result(None)


class _Messages:
    """Waits at a descriptor, in the event loop: a message is taken only to be returned."""

    def __init__(self, source):
        self._source = source
        self._watch = None  # made by the first call that has to wait
        self._is_waiting = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._is_waiting:
            raise Busy("another task waits at this iterator")
        while True:
            try:
                return self._source.recv(0)
            except Empty:
                pass
            except Closed:
                raise StopAsyncIteration from None
            if self._watch is None:
                self._watch = self._source._watch()
            descriptor = self._watch.arm()
            if descriptor is None:
                await asyncio.sleep(0)  # another reader may take it first
                continue
            loop = asyncio.get_running_loop()
            ready = loop.create_future()
            loop.add_reader(descriptor, _wake, ready)
            self._is_waiting = True
            try:
                await ready
            finally:
                self._is_waiting = False
                loop.remove_reader(descriptor)


class _Work:
    """What the iterator of a capture and its thread share. It does not refer to the iterator, whose end ends the thread."""

    def __init__(self, capture):
        self.capture = capture
        self.asked = queue.SimpleQueue()  # one entry for each burst to wait for, and None at the end
        self.lock = threading.RLock()
        self.found = []  # at most one: a burst, an exception, or None at the end of the source
        self.future = None  # to wake
        self.is_over = False

    def run(self):
        while self.asked.get() is not None:
            try:
                found = self.take()
            except BaseException as error:
                found = error
            with self.lock:
                if self.is_over:
                    return self.give_back(found)
                self.found.append(found)
                future = self.future
            try:
                future.get_loop().call_soon_threadsafe(_wake, future)
            except RuntimeError:
                pass  # the loop is closed; another one may ask

    def take(self):
        waited, limit = 0.0, self.capture._timeout
        while True:
            slice = _SLICE if limit is None else max(min(_SLICE, limit - waited), 0)
            try:
                return self.capture.next_burst(slice)
            except TimedOut:
                if self.is_over or (limit is not None and waited + slice >= limit):
                    raise
            except Busy:
                # The thread of an iterator before this one ends within a slice.
                if waited > 10 * _SLICE:
                    raise
                time.sleep(slice)
            waited += slice

    def give_back(self, found):
        if found is not None and not isinstance(found, BaseException):
            self.capture._give_back(found)

    def end(self):
        with self.lock:
            self.is_over = True
            while self.found:
                self.give_back(self.found.pop())
        self.asked.put(None)


class _Bursts:
    """A thread makes the calls that wait, one for each burst that a task asks for, and then wakes the event loop."""

    def __init__(self, capture):
        self._work = _Work(capture)
        self._thread = None  # made by the first call
        self._is_asked = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        work = self._work
        while True:
            future = asyncio.get_running_loop().create_future()
            with work.lock:
                if work.found:
                    found = work.found.pop()
                    break
                work.future = future
            if self._thread is None:
                self._thread = threading.Thread(target=work.run, daemon=True)
                self._thread.start()
            if not self._is_asked:
                self._is_asked = True
                work.asked.put(True)
            await future  # if the task is cancelled here, the next one gets the burst
        self._is_asked = False
        if found is None:
            raise StopAsyncIteration
        if isinstance(found, BaseException):
            raise found
        return found

    def __del__(self):
        self._work.end()


bursts = _Bursts
messages = _Messages
