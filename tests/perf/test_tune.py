"""The command that makes a shipped table: refused without a GPU, and over every workload with a made-up clock."""

import argparse
import json
import subprocess
import sys

import pytest

import triten as tt
from triten.perf.ahead_of_time.compilation import compiling_environment
from triten.perf.gpu import tune, workloads
from triten.triton_kernels.tuning import choice
from triten.triton_kernels.tuning.entry import Entry, source_of
from triten.triton_kernels.tuning.report import Finding, Report
from triten.triton_kernels.tuning.table import read_table

SGD = "triten.triton_kernels.optimizers.sgd_kernel:fused_sgd"


def entry(shape, warps=4, source=None):
    return Entry(
        SGD, source or source_of(SGD), "fp32", shape, (512,), warps, 3, {"512 w4 s3": 2.0}, "some GPU"
    )


def arguments(path, rows="", seconds=None):
    return argparse.Namespace(output=path, rows=rows, seconds=seconds, rehearse=False)


def refused():
    raise NotImplementedError("not on this device")


def test_without_a_gpu_nothing_is_written(tmp_path, capsys, monkeypatch):
    path = tmp_path / "sm_90.json"
    assert tune.run(arguments(path)) == 2
    assert "TRITEN_CUDA=interpret simulates a device" in capsys.readouterr().err
    monkeypatch.setattr(tt.cuda, "is_available", lambda: False)
    assert tune.run(arguments(path)) == 2
    assert "no CUDA GPU is available here" in capsys.readouterr().err
    assert not path.exists()


def test_a_table_is_renewed(tmp_path):
    """Check that new entries replace old ones, and that entries of another kernel version are dropped."""
    path = tmp_path / "tables" / "sm_90.json"
    tune.write_table(path, 90, "some GPU", [entry("1"), entry("2")])
    tune.write_table(path, 90, "some GPU", [entry("0", source="0"), entry("3")])
    tune.write_table(path, 90, "some GPU", [entry("2", 8)])
    assert [(e.shape, e.warps) for e in read_table(path)] == [("1", 4), ("2", 8), ("3", 4)]
    assert "python -m triten.perf tune on some GPU" in path.read_text()


def test_every_workload_becomes_a_call_that_runs(tmp_path, monkeypatch, capsys):
    """At the sizes of a rehearsal; what is measured is made up, what runs is not."""
    monkeypatch.setattr(tune, "what_is_missing", lambda: "")
    for family in (
        "products",
        "convolutions",
        "convolution_gradients",
        "rows_of_networks",
        "attention",
        "memory_bound",
    ):
        real = getattr(tune, family)
        monkeypatch.setattr(tune, family, lambda scale, real=real: list(real(64))[:3])
    monkeypatch.setattr(tune, "OPTIMIZER_SIZES", ((5,), (3, 4)))
    monkeypatch.setattr(tune, "CHANNEL_NORMS", ((2, 32, 3),))
    monkeypatch.setattr(tune, "LOSSES", ((4, 7),))
    monkeypatch.setattr(tune, "SORTED_LINES", ())
    monkeypatch.setattr(tune, "ATTENTION", ())
    monkeypatch.setattr(tune, "decoding_call", refused)
    ran = []

    def autotune(call, *given):
        ran.append(call(*given))
        question = choice.Question(SGD, None, "fp32", "1")
        return Report(
            (Finding(question, {}, {}, None, entry("1", len(ran))), Finding(question, {}, {}, None))
        )

    monkeypatch.setattr(tt.triton_kernels, "autotune", autotune)
    path = tmp_path / "sm_90.json"
    assert tune.run(arguments(path)) == 0
    # Each of five families, three of them with gradients, and the optimizers.
    assert len(ran) == 3 * (5 + 3) + 6 + 2 * 2 * 2
    assert [(e.shape, e.warps) for e in read_table(path)] == [("1", 1)]  # the first one's
    ran.clear()
    assert "attention: one query, head 128 bfloat16: left out: not on this device" in capsys.readouterr().err
    assert tune.run(arguments(path, "^optimizers: 2 tensors of up to 4 bfloat16")) == 0
    assert ran == [None, None]
    assert "1 entries measured on Triton interpreter" in capsys.readouterr().out


def test_what_was_measured_is_kept_when_a_run_ends_early(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tune, "what_is_missing", lambda: "")
    monkeypatch.setattr(tune, "OPTIMIZER_SIZES", ((5,),))
    question = choice.Question(SGD, None, "fp32", "1")
    reports = iter([Report((Finding(question, {}, {}, None, entry("1")),))])

    def autotune(call, *given):
        report = next(reports, None)
        if report is None:
            raise KeyboardInterrupt
        return report

    monkeypatch.setattr(tt.triton_kernels, "autotune", autotune)
    path = tmp_path / "sm_90.json"
    with pytest.raises(KeyboardInterrupt):
        tune.run(arguments(path, "^optimizers"))
    assert [e.shape for e in read_table(path)] == ["1"]
    assert tune.run(arguments(path, "^optimizers", seconds=1e-9)) == 0
    assert "SGD and what follows: left out after 1e-09 seconds" in capsys.readouterr().err


FAMILIES = {
    "convolve", "convolve_backward_weight", "softmax", "softmax_backward", "normalise_rows", "normalise_rows_backward",
    "normalise_channels", "channel_gradients", "normalise_groups", "cross_entropy", "attention",
    "attention_backward_keys", "attention_backward_queries", "fused_sgd", "fused_adam", "dense", "rows", "reduce",
    "reduce_moments", "prefix_scan",
}  # fmt: skip
"""Kernels of every family that one run tunes on each target."""
OF_TARGET = {
    80: {"weight_gradients"},  # in clusters, the gradient of rows adds up those of weights
    90: {"matmul_persistent", "matmul_warp_specialized", "convolve_bulk", "convolve_backward_weight_bulk"},
}


@pytest.mark.parametrize("capability", OF_TARGET)
def test_one_run_tunes_every_family(capability):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "triten.tests.perf.tuned_kernels", str(capability)],
        env=compiling_environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert FAMILIES | OF_TARGET[capability] <= set(found["asked"])
    eight_bits = {f"matmul, 8 bits: _scaled_mm {m}x{n}x{k}" for m, n, k in workloads.SCALED}
    assert set(found["left_out"]) == (eight_bits if capability == 80 else set())


def test_what_cannot_be_run_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tune, "what_is_missing", lambda: "")

    def refusing(call, *given):
        raise NotImplementedError("not here")

    monkeypatch.setattr(tt.triton_kernels, "autotune", refusing)
    monkeypatch.setattr(tune, "OPTIMIZER_SIZES", ((5,),))
    path = tmp_path / "sm_90.json"
    assert tune.run(arguments(path, "^optimizers")) == 0
    assert read_table(path) == []
    assert "left out: not here" in capsys.readouterr().err
