"""Runs the questions of docs/archive-sql.md with each installed engine, and compares the answers with a plain scan.

Arguments: the page, the folder of the table. Prints a line for each engine: its name, and how many answers agree, or why it does not run.
"""

import importlib.util
import re
import sys

page, index = open(sys.argv[1]).read(), sys.argv[2]
questions = re.findall(r"^## (\d+)\. [^\n]*\n.*?^```sql\n(.*?)^```", page, re.M | re.S)
engines = re.findall(r"^### (\w+)\n.*?^```python\n(.*?)^```", page.split("## 1.")[0], re.M | re.S)
packages = {"DuckDB": "duckdb", "Polars": "polars", "Spark": "pyspark", "ClickHouse": "chdb", "deltalake": "deltalake"}
assert [int(number) for number, _ in questions] == list(range(1, 11)), "the questions are numbered from 1 to 10"
assert sorted(name for name, _ in engines) == sorted(packages), "a snippet for each engine"

HOUR = 3_600_000_000_000


def scan(rows):
    """The answers, computed by loops over all rows."""

    def grouped(keys, some):
        groups = {}
        for row in some:
            groups.setdefault(tuple(row[key] for key in keys), []).append(row)
        return groups

    def total(some, name):
        return sum(row[name] for row in some)

    def first(some):
        return min(row["first_ns"] for row in some)

    def last(some):
        return max(row["last_ns"] for row in some)

    pair = ("address_a", "address_b", "port_b")
    answers = []
    with_ports = [row for row in rows if row["address_a"] is not None and row["port_b"] is not None]
    pairs = grouped(pair, with_ports)
    top = [(*key, total(some, "bytes"), total(some, "packets")) for key, some in pairs.items()]
    answers.append(sorted(top, key=lambda row: (-row[3], row[:3]))[:10])

    hours = {}
    for row in rows:
        hours.setdefault((row["sensor"], row["first_ns"] // HOUR * HOUR), []).append(row)
    lost = [(*key, *(total(some, name) for name in ("packets", "lost_kernel", "lost_interface"))) for key, some in hours.items()]
    answers.append(sorted(row for row in lost if row[3] or row[4]))

    peers = {}
    for row in rows:
        ends = [row["address_a"], row["address_b"]]
        if "10.0.0.66" in ends:
            ends.remove("10.0.0.66")
            peers.setdefault(ends[0], []).append(row)
    answers.append(sorted((peer, first(some), last(some), total(some, "bytes")) for peer, some in peers.items()))

    beacons = []
    for key, some in pairs.items():
        slots = {row["first_ns"] // (HOUR // 6) for row in some}
        is_regular = len(slots) >= 12 and len(slots) * 10 >= (max(slots) - min(slots) + 1) * 9
        if is_regular and total(some, "bytes") < len(some) * 2000:
            beacons.append((*key, len(slots), total(some, "bytes")))
    answers.append(sorted(beacons))

    server = grouped(("protocol", "port_b"), (row for row in rows if row["address_b"] == "203.0.113.10"))
    answers.append(sorted((*key, len({row["address_a"] for row in some}), total(some, "bytes")) for key, some in server.items()))

    hosts = {}
    for row in rows:
        for host in (row["address_a"], row["address_b"]):
            if host is not None:
                hosts.setdefault(host, []).append(row)
    new = [(host, first(some), len({row["sensor"] for row in some})) for host, some in hosts.items()]
    answers.append(sorted(row for row in new if row[1] >= 1_795_305_600_000_000_000))

    flow = ("community_id", "address_a", "port_a", "address_b", "port_b")
    flows = grouped(flow, (row for row in rows if row["community_id"] is not None))
    long = [(*key, first(some), last(some), total(some, "bytes")) for key, some in flows.items()]
    answers.append(sorted(row for row in long if row[6] - row[5] > HOUR))

    scans = grouped(("address_a", "port_b"), (row for row in rows if row["protocol"] == 6 and row["tcp_flags"] in (2, 6, 22)))
    scans = [(*key, len({row["address_b"] for row in some}), first(some)) for key, some in scans.items()]
    answers.append(sorted(row for row in scans if row[2] >= 20))

    tags = {}
    for row in rows:
        key = tuple(-1 if row[name] is None else row[name] for name in ("vlan", "protocol"))
        tags.setdefault(key, []).append(row)
    answers.append(sorted((*key, total(some, "bytes"), total(some, "packets")) for key, some in tags.items()))

    wanted = re.search(r"community_id = '([^']*)'", questions[9][1])[1]
    columns = ("sensor", "segment", "block_offset", "block_length", "first_ns", "last_ns", "packets")
    some = [tuple(row[name] for name in columns) for row in rows if row["community_id"] == wanted]
    answers.append(sorted(some, key=lambda row: (row[0], row[4], row[1], row[2])))
    return answers


def plain_rows():
    import pyarrow.parquet
    from deltalake import DeltaTable

    rows = []
    for file in DeltaTable(index).file_uris():
        rows += pyarrow.parquet.ParquetFile(file).read().to_pylist()
    return rows


expected = scan(plain_rows())
for number, answer in enumerate(expected, 1):
    assert answer, f"question {number} has an empty answer: the test shows nothing"
for name, code in engines:
    if importlib.util.find_spec(packages[name]) is None:
        print(f"{name}: not installed")
        continue
    names = {}
    agreeing = 0
    for (number, question), answer in zip(questions, expected):
        names["question"] = question
        try:
            exec(code.replace("/archive/index", index), names)
        except Exception as error:
            print(f"question {number}, {name}: {error}", file=sys.stderr)
            continue
        found = [tuple(int(value) if hasattr(value, "as_tuple") else value for value in row) for row in names["rows"]]
        if found == answer:
            agreeing += 1
        else:
            print(f"question {number}, {name}: {found[:5]} instead of {answer[:5]}", file=sys.stderr)
    print(f"{name}: {agreeing} of {len(questions)} answers agree")
