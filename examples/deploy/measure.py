"""Measure `serve.py` in several environments: cold start, memory, latency and disk size, side by side.

    python examples/deploy/serve.py --make model
    python examples/deploy/measure.py --model model triten=.venv/bin/python pytorch=.pytorch/bin/python

Each environment is a Python with transformers; in one torch is triten, in another PyTorch. Server processes of the
environments alternate, and the table has medians. All embeddings are compared with those of the first environment.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from pathlib import Path
from statistics import median

SERVE = Path(__file__).with_name("serve.py")
TEXTS = ["Shall I compare thee to a summer's day?", "Thou art more lovely and more temperate"] * 4

# The distribution torch and all that it requires, each file counted once.
SIZES = """
import importlib.metadata as m, os, re
sizes, names = {}, ["torch"]
seen = set(names)
for name in names:
    try:
        found = m.distribution(name)
    except m.PackageNotFoundError:
        continue
    for file in found.files or ():
        path = os.path.realpath(found.locate_file(file))
        if os.path.exists(path):
            sizes[path] = os.path.getsize(path)
    for each in found.requires or ():
        needed = re.match(r"[\\w.-]+", each)[0].lower()
        if "extra ==" not in each and needed not in seen:
            seen.add(needed)
            names.append(needed)
print(sum(sizes.values()) / 1e6)
"""


def ask(port: str, path: str, value: object = None) -> dict[str, object]:
    """Return a response of the server at a port."""
    data = None if value is None else json.dumps(value).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=120) as answer:
        return json.load(answer)


def serve_once(python: str, model: Path, requests: int) -> tuple[dict[str, float], list[list[float]]]:
    """Start a server, ask it, and return measurements by name and the embeddings."""
    measurements: dict[str, float] = {}
    started = time.perf_counter()
    command = [python, "-P", str(SERVE), "--model", str(model), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            line = server.stdout.readline() if server.stdout else ""
            address = re.search(r":(\d+)/", line)
            if address is None:
                raise SystemExit(f"{' '.join(command)} ended with status {server.wait()}: run it to see why")
            embeddings = ask(address[1], "/embed", {"texts": TEXTS})["embeddings"]
            measurements["start to the first response, s"] = time.perf_counter() - started
            used = float(ask(address[1], "/status")["cpu"])
            measurements["the same, CPU time, s"] = used
            for count in (1, len(TEXTS)):
                seconds = []
                for _ in range(requests):
                    begin = time.perf_counter()
                    ask(address[1], "/embed", {"texts": TEXTS[:count]})
                    seconds.append(time.perf_counter() - begin)
                before, used = used, float(ask(address[1], "/status")["cpu"])
                measurements[f"request of {count}, ms"] = median(seconds) * 1e3
                measurements[f"request of {count}, CPU time, ms"] = (used - before) / requests * 1e3
            status = ask(address[1], "/status")
            for name in ("import torch", "import transformers", "model loaded", "now"):
                measurements[f"memory, {name.replace('now', 'after the requests')}, MB"] = float(status[name])
        finally:
            server.terminate()
    return measurements, embeddings


def main() -> None:
    """Measure every environment and print the table."""
    parser = argparse.ArgumentParser(description="Measure serve.py in several environments.")
    parser.add_argument("environments", nargs="+", metavar="NAME=PYTHON", help="the first is the reference")
    parser.add_argument(
        "--model", type=Path, required=True, metavar="FOLDER", help="serve.py --make writes one"
    )
    parser.add_argument("--rounds", type=int, default=5, help="processes of each environment. Default: 5")
    parser.add_argument("--requests", type=int, default=30, help="of each size in a process. Default: 30")
    options = parser.parse_args()
    pythons = dict(each.split("=", 1) for each in options.environments)
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    embeddings: dict[str, list[list[float]]] = {}
    for number in range(options.rounds):
        for name, python in pythons.items():
            print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
            measurements, embeddings[name] = serve_once(python, options.model, options.requests)
            for row, value in measurements.items():
                rows[row][name].append(value)
    for name, python in pythons.items():
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(
            [python, "-P", "-c", SIZES], capture_output=True, text=True, check=True, env=environment
        )
        rows["torch and its requirements on disk, MB"][name].append(float(done.stdout))
    print("| | " + " | ".join(pythons) + " |\n|---|" + "--:|" * len(pythons))
    for row, values in rows.items():
        digits = 2 if row.endswith(", s") else 0 if row.endswith("MB") else 1
        print(f"| {row} | " + " | ".join(f"{median(values[name]):,.{digits}f}" for name in pythons) + " |")
    first, *other_embeddings = (embeddings[name] for name in pythons)
    for name, other in zip(list(pythons)[1:], other_embeddings, strict=True):
        difference = max(
            abs(a - b) for x, y in zip(first, other, strict=True) for a, b in zip(x, y, strict=True)
        )
        print(f"\nlargest difference of an embedding's element, {name}: {difference:.1e}")


if __name__ == "__main__":
    main()
