"""Forks, and the exit of the interpreter, with one of each object."""

import subprocess
import sys
import textwrap

OBJECTS = """
import forebay, os, threading
queue, stream, ring, broadcast = forebay.Queue(), forebay.Stream(4), forebay.Ring(4, 8), forebay.Broadcast()
reader, capture, hub = broadcast.reader(), forebay.capture("sim:rate=1bit"), forebay.Hub()
log, file = forebay.Appender("a.rec"), forebay.Writer("a.pcapng")
log.append(b"record")
file.write(bytes(60))
"""


def run(program, folder):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", OBJECTS + textwrap.dedent(program)],
        capture_output=True, text=True, timeout=60, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_the_interpreter_exits_while_threads_wait_at_every_object(tmp_path):
    done = run(
        """
        full = forebay.Stream(4)
        full.write(b"full")
        waits = (queue.recv, queue.recv_many, stream.read, ring.pop, reader.recv, capture.next_burst, hub.recv, lambda: full.write(b"more"))
        for wait in waits:
            threading.Thread(target=wait, daemon=True).start()
        """,
        tmp_path,
    )
    assert "Fatal" not in done.stderr and "panic" not in done.stderr


def test_a_forked_child_gets_misuse_from_every_object_and_leaves_files_alone(tmp_path):
    run(
        """
        calls = (queue.recv, stream.read, ring.pop, broadcast.fileno, reader.recv, capture.next_burst, hub.recv, log.flush, file.flush)
        pid = os.fork()
        if pid == 0:
            refused = 0
            for call in calls:
                try:
                    call()
                except forebay.Misuse:
                    refused += 1
            del queue, stream, ring, broadcast, reader, capture, hub, log, file, calls
            raise SystemExit(refused)  # with all that Python does at its exit
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
        log.close()
        file.close()
        assert forebay.read_records("a.rec") == ([b"record"], None)
        assert sum(len(burst) for burst in forebay.read("a.pcapng")) == 1
        """,
        tmp_path,
    )
