"""`async for` over what can be waited for.

A thread makes the calls that wait, one for each item that a task asks for, and then wakes the event loop through its descriptor. If
the task is cancelled meanwhile, the item stays for the next one that asks.
"""

import asyncio
import queue
import threading

from ._errors import Closed, Empty

_END = object()


class _Items:
    def __init__(self, take):
        self._take = take
        self._asked = None  # made with the thread, by the first call that has to wait
        self._coming = None

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self._coming is None:
            self._coming = asyncio.get_running_loop().create_future()
            self._ask(self._coming)
        # A cancelled task cancels only its shield.
        item = await asyncio.shield(self._coming)
        self._coming = None
        if item is _END:
            raise StopAsyncIteration
        if isinstance(item, BaseException):
            raise item
        return item

    def _ask(self, future):
        if self._asked is None:
            self._asked = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(self._asked, self._take), daemon=True).start()
        self._asked.put(future)

    def __del__(self):
        if self._asked is not None:
            self._asked.put(None)


def _serve(asked, take):
    while (future := asked.get()) is not None:
        try:
            item = take()
        except Exception as error:
            item = error
        try:
            future.get_loop().call_soon_threadsafe(_deliver, future, item)
        except RuntimeError:
            return  # the loop is closed


def _deliver(future, item):
    if not future.done():
        future.set_result(item)


class _Ready(_Items):
    """Takes what is there already without the thread."""

    def __init__(self, take, take_now):
        super().__init__(take)
        self._take_now = take_now

    async def __anext__(self):
        if self._coming is None:
            try:
                return self._take_now()
            except Empty:
                pass
            except Closed:
                raise StopAsyncIteration from None
        return await super().__anext__()


def bursts(capture):
    def take():
        burst = capture.next_burst()
        return _END if burst is None else burst

    return _Items(take)


def messages(messages):
    def take():
        try:
            return messages.recv()
        except Closed:
            return _END

    return _Ready(take, lambda: messages.recv(0))
