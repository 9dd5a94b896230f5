"""`async for` over what can be waited for."""

import asyncio
import queue
import threading
import time

from ._errors import Busy, Closed, Empty, TimedOut

_SLICE = 0.05  # seconds after which a thread notices that its iterator is gone


def _wake(future, failure=None):
    if future.done():
        return  # its task was cancelled
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)


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
        self.asked = queue.SimpleQueue()  # a future for each wait, and None at the end
        self.is_over = False

    def run(self):
        while (future := self.asked.get()) is not None:
            failure = None
            try:
                self.wait(future)
            except BaseException as error:
                failure = error
            try:
                future.get_loop().call_soon_threadsafe(_wake, future, failure)
            except RuntimeError:
                pass  # the loop is closed; another one may ask

    def wait(self, future):
        """Waits for a burst, or the end, until the task is cancelled."""
        begun, limit = time.monotonic(), self.capture._timeout
        while not (self.is_over or future.done()):
            waited = time.monotonic() - begun
            slice = _SLICE if limit is None else max(min(_SLICE, limit - waited), 0)
            try:
                if self.capture._find(slice):
                    return
            except Busy:
                # The thread of an iterator before this one ends within a slice.
                if waited > 10 * _SLICE:
                    raise
                time.sleep(_SLICE / 10)
            else:
                if limit is not None and waited + slice >= limit:
                    raise TimedOut("no packet came within the time limit")


class _Bursts:
    """A thread makes the calls that wait, and wakes the event loop. The burst stays in the capture until a task takes it."""

    def __init__(self, capture):
        self._work = _Work(capture)
        self._thread = None  # made by the first call
        self._is_waiting = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._is_waiting:
            raise Busy("another task waits at this iterator")
        if self._thread is None:
            self._thread = threading.Thread(target=self._work.run, daemon=True)
            self._thread.start()
        self._is_waiting = True
        try:
            while True:
                ready = asyncio.get_running_loop().create_future()
                self._work.asked.put(ready)
                await ready
                try:
                    burst = self._work.capture.next_burst(0)
                except (Busy, TimedOut):
                    continue  # another reader took it
                if burst is None:
                    raise StopAsyncIteration
                return burst
        finally:
            self._is_waiting = False

    def __del__(self):
        self._work.is_over = True
        self._work.asked.put(None)


bursts = _Bursts
messages = _Messages
