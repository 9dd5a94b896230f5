"""The exceptions of the package: a class for each code."""


class Error(Exception):
    """The base of all exceptions of this package.

    `code` is the number of the failure, the same in Rust, C and Python. `errno` is the system's, or None.
    """

    code = -15
    errno = None

    def __init__(self, text="", errno=None):
        super().__init__(text)
        self.errno = errno


class Full(Error):
    """There is no room now."""

    code = -1


class Empty(Error):
    """There is nothing now."""

    code = -2


class TimedOut(Error, TimeoutError):
    """Nothing happened within the time limit."""

    code = -3


class Closed(Error):
    """The other end is closed or gone, or the stream has ended."""

    code = -4


class Invalid(Error, ValueError):
    """An argument is out of its range."""

    code = -5


class TooLong(Error, ValueError):
    """It never fits."""

    code = -6


class NotFound(Error, FileNotFoundError):
    """There is no such file, interface or queue."""

    code = -7


class Exists(Error, FileExistsError):
    """The name is taken."""

    code = -8


class NoPermission(Error, PermissionError):
    """The system does not allow it."""

    code = -9


class Unsupported(Error):
    """This system or this kind of object cannot do it."""

    code = -10


class Interrupted(Error):
    """The wait was ended by another thread, or by the exit of the interpreter."""

    code = -11


class NoMemory(Error, MemoryError):
    """There is not enough memory."""

    code = -12


class Damaged(Error):
    """The bytes of a file, or those that another process wrote, make no sense."""

    code = -13


class Busy(Error):
    """Another thread uses this object. Only one at a time may."""

    code = -14


class InputOutput(Error):
    """Any other answer of the system."""

    code = -15


class Misuse(Error):
    """The object is closed, was released, or was made before a fork."""

    code = -16


class Defect(Error):
    """A defect of this package."""

    code = -17


class Overrun(Error):
    """Messages were overwritten before they were received."""

    code = -18


_CLASSES = {
    cls.code: cls
    for cls in (
        Full, Empty, TimedOut, Closed, Invalid, TooLong, NotFound, Exists, NoPermission, Unsupported, Interrupted, NoMemory, Damaged,
        Busy, InputOutput, Misuse, Defect, Overrun,
    )
}  # fmt: skip


def _of(code, text, errno):
    return _CLASSES.get(code, Error)(text, errno)
