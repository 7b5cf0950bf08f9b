"""Rows in the registers of a cluster of thread blocks: which rows have one, and their values under the emulator."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from triten.runtime.cuda.driver import compiler_options
from triten.runtime.cuda.occupancy import KNOWN
from triten.runtime.cuda.recording_driver import RecordingDriver
from triten.runtime.cuda.triton import lazy_gluon
from triten.runtime.device import device as Device
from triten.triton_kernels.budget import Configuration, declaration_of
from triten.triton_kernels.normalization import clusters
from triten.triton_kernels.normalization.clusters import cluster_tile
from triten.triton_kernels.tuning.entry import Entry, read_entry

HERE = Device("cuda", 0)


def in_subprocess(command: list[str], **variables: str) -> list[dict]:
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    environment |= {"TRITEN_TUNING_STORE": "0"} | variables
    done = subprocess.run([sys.executable, "-P", *command], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_values_and_gradients_of_emulated_clusters():
    script = Path(__file__).with_name("cluster_rows.py")
    rows = in_subprocess([str(script)], TRITEN_CUDA="emulate", TRITEN_EMULATE="90")
    assert {row["case"]: {k for k, ctas in row["clusters"].items() if ctas > 1} for row in rows} == {
        "softmax with edges": {"softmax", "softmax_backward"},
        "log_softmax": {"softmax", "softmax_backward"},
        "layer_norm with edges": {"normalise_rows", "normalise_rows_backward"},
        "rms_norm": {"normalise_rows", "normalise_rows_backward"},
        "cross_entropy with edges": {"cross_entropy"},
        "cross_entropy, smoothed": {"cross_entropy"},
        "cross_entropy of probabilities": {"cross_entropy"},
    }
    for row in rows:
        # The exponents of probabilities are between 4 and 8, with two errors of two epsilons each.
        assert max(row["errors"]) < (5 if "probabilities" in row["case"] else 3), row


PLANNING = """
import json, sys
import triten as tt
from triten.runtime.cuda import driver as cuda
from triten.runtime.cuda.occupancy import KNOWN
from triten.runtime.cuda.recording_driver import RecordingDriver
from triten.triton_kernels.tuning.choice import forced, listening, make_plans_anew
from triten.triton_kernels.tuning.question import candidates

F = tt.nn.functional
CALLS = {
    "softmax": lambda x, w: tt.softmax(x, 1),
    "layer_norm": lambda x, w: F.layer_norm(x, [x.shape[1]], w, w),
    "cross_entropy": lambda x, w: F.cross_entropy(x, target),
    "smoothed": lambda x, w: F.cross_entropy(x, target, w.detach(), label_smoothing=0.1),
    "probabilities": lambda x, w: F.cross_entropy(x, x.detach()),
}
LENGTHS = {"softmax": (4096, 50257, 131072, 300000), "layer_norm": (4096, 50257)}

def plan(call, n, dtype):
    x = tt.empty(64, n, dtype=dtype, device="cuda", requires_grad=True)
    w = tt.empty(n, dtype=dtype, device="cuda", requires_grad=True)
    make_plans_anew()
    driver.launched.clear()
    driver.grids.clear()
    out = CALLS[call](x, w)
    out.backward(tt.empty_like(out))
    return [
        [noted["kernel"].__name__, noted["options"].get("num_ctas", 1), noted["constants"].get("WHOLE"), grid[0]]
        for noted, grid in zip(driver.launched, driver.grids)
    ]

for capability in (80, 90, 120):
    driver = cuda._driver = RecordingDriver(KNOWN[capability])
    target = tt.empty(64, dtype=tt.int64, device="cuda")
    for dtype in (tt.bfloat16, tt.float32, tt.float64):
        for call in CALLS:
            for n in LENGTHS.get(call, (4096, 50257, 200000, 300000)):
                row = {"sm": capability, "dtype": str(dtype), "n": n, "call": call}
                print(json.dumps(row | {"launches": plan(call, n, dtype)}))
asked = {}
driver = cuda._driver = RecordingDriver(KNOWN[90])
with listening(lambda question, default: asked.setdefault(question, default)):
    plan("softmax", 50257, tt.bfloat16)
for question, default in asked.items():
    for candidate in candidates(question, default):
        with forced(question, candidate):
            launches = plan("softmax", 50257, tt.bfloat16)
        name = question.kernel.rpartition(":")[2]
        (taken,) = [ctas for kernel, ctas, *_ in launches if kernel == name]
        print(json.dumps({"tuned": name, "candidate": str(candidate), "ctas": candidate.ctas, "taken": taken}))
"""


def test_rows_that_no_block_holds_have_a_cluster_from_sm_90_on():
    found = in_subprocess(["-c", PLANNING])
    planned = {(r["sm"], r["dtype"], r["n"], r["call"]): r["launches"] for r in found if "sm" in r}
    for (capability, dtype, n, call), launches in planned.items():
        ctas = {kernel: count for kernel, count, *_ in launches}
        if capability in (80, 120) or "float64" in dtype or n in (4096, 300000):
            assert set(ctas.values()) == {1}, (capability, dtype, n, call)
        elif call == "softmax":
            expected = {50257: (4, 8), 131072: (8, 8)}[n]
            assert (ctas["softmax"], ctas["softmax_backward"]) == expected
            assert all(whole for _, _, whole, _ in launches), "every row is read once"
            assert [grid for *_, grid in launches] == [64, 64], "a program is a cluster"
        elif call != "layer_norm":
            # Masses beside scores leave no room in the registers of the widest clusters.
            longest = 8 if call == "cross_entropy" else 1
            assert ctas == {"cross_entropy": {50257: 4, 200000: longest}[n], "cross_entropy_backward": 1}
        else:
            del ctas["dense"]  # the weight is also the bias: its two gradients are added
            assert ctas == {"normalise_rows": 8, "normalise_rows_backward": 8, "add_up_parts": 1}, (
                "one pass gives all three gradients"
            )
    assert {r["taken"] for r in found if r.get("tuned") == "softmax"} == {1, 4, 8}
    assert {r["taken"] for r in found if r.get("tuned") == "softmax_backward"} == {1, 8}


def test_the_smallest_cluster_that_holds_a_row(monkeypatch):
    monkeypatch.setattr(clusters, "driver", lambda: RecordingDriver(KNOWN[90]))
    assert cluster_tile(HERE, 50257, 32) is None, "the interpreter has no clusters"
    monkeypatch.setattr(clusters, "interpreted", lambda: False)
    found = {body: cluster_tile(HERE, body, 32) for body in (9000, 32768, 32769, 131072, 131073, 262145)}
    assert {body: each and each.shape for body, each in found.items()} == {
        9000: ((1, 16384), 16, 3, 2),
        32768: ((1, 32768), 16, 3, 2),
        32769: ((1, 65536), 16, 3, 4),
        131072: ((1, 131072), 16, 3, 8),
        131073: ((1, 262144), 32, 3, 8),
        262145: None,
    }
    assert cluster_tile(HERE, 131073, 32, max_warps=16) is None
    monkeypatch.setattr(lazy_gluon, "triton_identity", lambda: ("3.8.0", ""))
    assert cluster_tile(HERE, 50257, 32) is None, "Triton before 3.9 does not compile them"
    monkeypatch.undo()
    monkeypatch.setattr(clusters, "interpreted", lambda: False)
    monkeypatch.setattr(clusters, "driver", lambda: RecordingDriver(KNOWN[80]))
    assert cluster_tile(HERE, 50257, 32) is None


def test_a_cluster_is_a_configuration_of_its_own():
    name = "triten.triton_kernels.normalization.softmax_kernels:softmax"
    declared = declaration_of(name)
    assert declared is not None
    four = Configuration((1, 65536), 16, ctas=4)
    assert str(four) == "1x65536 w16 s3 c4"
    covering = declared.covering("bf16", four, 90)
    assert covering is not None and covering.shape == four.shape
    assert declared.covering("bf16", Configuration((1, 65536), 16), 90) is None
    assert declared.covering("bf16", four, 80) is None and declared.covering("bf16", four, 120) is None
    assert not [each for each in declared.configurations["bf16"] if each.ctas > 1 and each.is_for(89)]


@pytest.mark.parametrize("ctas", [1, 4])
def test_a_measured_cluster_is_remembered(ctas):
    entry = Entry("module:kernel", "0123", "bf16", "1", (1, 65536), 16, 3, {}, "some GPU", ctas)
    record = json.loads(json.dumps(entry.as_json()))
    assert read_entry(record) == entry
    assert ("ctas" in record) == (ctas > 1), "records of single blocks stay as they were"


def test_the_option_reaches_triton():
    assert compiler_options(num_ctas=4)["num_ctas"] == 4
    assert "num_ctas" not in compiler_options(), "keys of stored kernels stay as they were"
