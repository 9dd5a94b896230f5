"""The examples of docs/python.md run, one after another, as in one program."""

import pathlib
import re

import pytest

import forebay
from forebay import _errors

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"


def test_the_examples_run(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    with forebay.capture("sim:count=1000,clock=virtual") as capture:
        forebay.write("a.pcapng", capture)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) > 6
    names = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)


def test_the_table_of_exceptions_is_complete():
    page = PAGE.read_text()
    for code, cls in _errors._CLASSES.items():
        assert getattr(forebay, cls.__name__) is cls and cls.__name__ in forebay.__all__
        row = next(line for line in page.splitlines() if line.startswith("|") and f"`{cls.__name__}`" in line)
        assert str(code) in row
