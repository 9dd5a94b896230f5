"""Does what programs in other languages ask for: the other end of the queue of `crates/forebay-c/examples/jobs.c`.

    ./jobs give fax one two three &
    python jobs.py fax

An empty message is the end.
"""

import sys

import forebay


def main(name):
    with forebay.Queue.attach(name) as jobs:
        for job in jobs:
            if not job:
                break
            print(job.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
