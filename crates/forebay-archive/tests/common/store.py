"""moto, an S3 server, with a journal: what it has answered outlives `kill -9`.

Requests that change something are written to the journal, before they are carried out, one after the other. When the server is
started again, it carries them out again in the same order. So its state is that of the last run.

Usage: store.py JOURNAL PORT
"""

import io
import logging
import pickle
import sys
import threading

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

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


def serve(environ, start_response):
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
