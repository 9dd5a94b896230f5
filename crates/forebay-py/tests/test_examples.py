"""The programs in `examples` and `bench` run."""

import pathlib
import runpy
import subprocess
import sys

import pytest

import forebay

HERE = pathlib.Path(__file__).parents[1]


def run(program, *arguments):
    done = subprocess.run([sys.executable, HERE / program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_histogram_of_a_capture():
    lines = run("examples/histogram.py", "sim:count=1000,clock=virtual", "20").splitlines()
    assert lines[0].endswith("1000 packets") and lines[-1].endswith("packets lost")


def test_a_plot_of_a_file(tmp_path):
    pytest.importorskip("matplotlib")
    # Its rings are too small for its stalls.
    with forebay.capture("sim:count=5000,rate=100kpps,ring=64,host=64,stall=5ms@20ms,clock=virtual") as capture:
        packets = forebay.write(tmp_path / "a.pcapng", capture)
    printed = run("examples/plot.py", str(tmp_path / "a.pcapng"), str(tmp_path / "a.png"))
    assert packets < 5000 and printed.endswith(f"{packets} packets, {5000 - packets} lost\n")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_the_bench_of_reading_finds_payloads_in_place(tmp_path):
    bench = runpy.run_path(str(HERE / "bench/read.py"))
    with forebay.capture("sim:count=20000,clock=virtual") as capture:
        forebay.write(tmp_path / "a.pcapng", capture)
    times, lengths, _ = bench["with_forebay"](tmp_path / "a.pcapng", 20_000)
    assert len(times) == 20_000 and lengths.sum() == 60 * 20_000


def test_the_bench_of_messages_runs():
    bench = runpy.run_path(str(HERE / "bench/messages.py"))
    queue = forebay.Queue()
    bench["many"](queue, 1000)
    bench["one"](queue, 10)
    bench["receive_many"](queue, 1010)
