"""`async for` over what can be waited for."""

import asyncio
import os
import threading
import time

from ._errors import Busy, Closed, Empty, TimedOut

_PATIENCE = 0.5  # seconds in which a cancelled read of a file ends


def _wake(future, failure=None):
    if future.done():
        return  # its task was cancelled
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)


class _Items:
    """Waits at a descriptor, in the event loop: an item is taken only to be returned."""

    def __init__(self, source, take, limit=None):
        self._source = source
        self._take = take
        self._limit = limit
        self._watch = None  # made by the first call that has to wait
        self._is_waiting = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._is_waiting:
            raise Busy("another task waits at this iterator")
        self._is_waiting = True
        try:
            return await self._next()
        except Closed:
            raise StopAsyncIteration from None
        finally:
            self._is_waiting = False

    async def _next(self):
        loop = asyncio.get_running_loop()
        end = None if self._limit is None else loop.time() + self._limit
        while True:
            try:
                return self._take()
            except (Empty, TimedOut):
                pass
            late = TimedOut("nothing came within the time limit")
            if end is not None and loop.time() > end:
                raise late
            if self._watch is None:
                self._watch = self._source._watch()
            descriptors = self._watch.arm()
            if not descriptors:
                await asyncio.sleep(0)  # another reader may take it first
                continue
            ready = loop.create_future()
            for descriptor in descriptors:
                loop.add_reader(descriptor, _wake, ready)
            timer = None if end is None else loop.call_at(end, _wake, ready, late)
            try:
                await ready
            finally:
                for descriptor in descriptors:
                    loop.remove_reader(descriptor)
                if timer is not None:
                    timer.cancel()


class _BurstsOfFile(_Items):
    """A thread reads each burst, which stays in the capture until a task takes it: a regular file has no descriptor to wait at."""

    async def _next(self):
        while True:
            loop = asyncio.get_running_loop()
            ready = loop.create_future()
            threading.Thread(target=self._find, args=(loop, ready), daemon=True).start()
            await ready
            try:
                return self._take()
            except (Busy, TimedOut):
                pass  # another reader took it

    def _find(self, loop, ready):
        failure, begun = None, time.monotonic()
        while True:
            try:
                self._source._find()
            except Busy as error:
                if time.monotonic() - begun < _PATIENCE:
                    time.sleep(0.001)
                    continue
                failure = error
            except BaseException as error:
                failure = error
            break
        try:
            loop.call_soon_threadsafe(_wake, ready, failure)
        except RuntimeError:
            pass  # the loop is closed


def messages(source):
    return _Items(source, lambda: source.recv(0))


def bursts(capture):
    def take():
        burst = capture.next_burst(0)
        if burst is None:
            raise Closed("the source has ended")
        return burst

    path = capture._path
    if path is not None and os.path.isfile("/dev/stdin" if str(path) == "-" else path):
        return _BurstsOfFile(capture, take)
    return _Items(capture, take, capture._timeout)
