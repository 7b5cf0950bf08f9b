"""The command that makes a shipped table: refused without a GPU, and over every workload with a made-up clock."""

import argparse

import triten as tt
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
    for family in ("products", "convolutions", "rows_of_networks", "attention"):
        real = getattr(workloads, family)
        monkeypatch.setattr(tune, family, lambda scale, real=real: list(real(64))[:3])
    monkeypatch.setattr(tune, "OPTIMIZER_SIZES", ((5,), (3, 4)))
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
    assert len(ran) >= 3 + 3 + 1 + 2 * 2 * 2
    assert [(e.shape, e.warps) for e in read_table(path)] == [("1", 1)]  # the first one's
    ran.clear()
    assert tune.run(arguments(path, "^optimizers: 2 tensors of up to 4 bfloat16")) == 0
    assert ran == [None, None]
    assert "1 entries measured on Triton interpreter" in capsys.readouterr().out


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
