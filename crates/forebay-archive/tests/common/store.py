"""moto, an S3 server, with a journal: what it has answered outlives `kill -9`.

Requests that change something are written to the journal, before they are carried out, one after the other. When the server is
started again, it carries them out again in the same order. So its state is that of the last run. Uploads in parts are numbered: moto gives
them random names, which the requests in the journal would not find again.

The file JOURNAL.faults, if it exists, says which requests are answered with an error. Its line `STATUS EVERY TEXT` means every EVERY-th
request whose path or query contains TEXT.

Usage: store.py JOURNAL PORT
"""

import datetime
import io
import itertools
import logging
import os
import pickle
import sys
import threading
from urllib.parse import unquote

from moto.s3 import models
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

uploads = itertools.count(1)
start_upload = models.FakeMultipart.__init__


def start_numbered(upload, *arguments, **named):
    start_upload(upload, *arguments, **named)
    upload.id = f"upload{next(uploads)}"


models.FakeMultipart.__init__ = start_numbered

# The clock of the store is wrong by this number of seconds.
wrong = datetime.timedelta(seconds=int(os.environ.get("STORE_CLOCK", "0")))
utcnow = models.utcnow
models.utcnow = lambda: utcnow() + wrong

journal_path, port = sys.argv[1], int(sys.argv[2])
app = DomainDispatcherApplication(create_backend_app)
# Create-only puts are atomic only if nothing else happens meanwhile.
lock = threading.Lock()


def again():
    try:
        journal = open(journal_path, "rb")
    except FileNotFoundError:
        return
    with journal:
        whole = 0
        while True:
            try:
                environ, body = pickle.load(journal)
            except (EOFError, pickle.UnpicklingError):
                break  # the last one may be cut
            whole = journal.tell()
            environ |= {"wsgi.input": io.BytesIO(body), "wsgi.errors": sys.stderr, "wsgi.url_scheme": "http"}
            b"".join(app(environ, lambda *_: None))
    with open(journal_path, "r+b") as journal:
        journal.truncate(whole)


seen = 0


def fault(environ):
    """The status with which this request fails, or None."""
    global seen
    try:
        with open(journal_path + ".faults") as faults:
            line = faults.read().split()
    except FileNotFoundError:
        return None
    if not line:
        return None
    status, every, text = line
    if text not in unquote(environ["PATH_INFO"] + "?" + environ.get("QUERY_STRING", "")):
        return None
    with lock:
        seen += 1
        return status if seen % int(every) == 0 else None


def serve(environ, start_response):
    if status := fault(environ):
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(f"{status} Fault", [("Content-Length", "0")])
        return [b""]
    if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
        with lock:
            return [b"".join(app(environ, start_response))]
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    plain = {key: value for key, value in environ.items() if isinstance(value, str)}
    with lock:
        journal.write(pickle.dumps((plain, body)))
        journal.flush()
        return [b"".join(app(environ, start_response))]


again()
journal = open(journal_path, "ab")
logging.getLogger("werkzeug").setLevel(logging.ERROR)
run_simple("127.0.0.1", port, serve, threaded=True)
