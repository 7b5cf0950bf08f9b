"""A warm process neither compiles nor imports Triton: in processes of their own, on a driver that runs nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("warm_start.py")


def run(folder, *arguments):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIT")}
    environment |= {
        "TRITEN_CACHE_DIR": str(folder / "ours"),
        "TRITON_CACHE_DIR": str(folder / "theirs"),
    }
    return subprocess.run(
        [sys.executable, "-P", PROGRAM, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    found = {}
    for name, arguments in (("cold", ()), ("warm", ("without",)), ("installed", ())):
        done = run(folder, *arguments)
        assert done.returncode == 0, done.stderr
        found[name] = json.loads(done.stdout)
    return found


def test_a_cold_process_compiles(runs):
    cold = runs["cold"]
    assert cold["imported"]
    names = {name for name, _, _ in cold["launched"]}
    assert {"dense", "rows", "reduce", "matmul", "softmax", "fill_with_draws", "drop", "pick_runs"} <= names
    assert cold["compiled"] >= len(names)


def test_a_warm_process_launches_the_same_without_triton(runs):
    assert runs["warm"] == {"compiled": 0, "imported": False, "launched": runs["cold"]["launched"]}


def test_a_warm_process_does_not_import_triton_where_it_is_installed(runs):
    assert runs["installed"] == runs["warm"]


def test_without_triton_and_without_an_entry_the_error_says_both(tmp_path):
    done = run(tmp_path, "without")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: kernel '")
    assert (
        f"for sm_80 is not in the store of compiled kernels in {tmp_path}/ours/cubins. Triton, which" in last
    )
    assert "pip install 'triton >= 3.6'" in last
