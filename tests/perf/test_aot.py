"""The gate: every shipped kernel meets its declaration, and the gate detects violations.

Compilation runs in processes without the interpreter; results are kept in pytest's cache by a hash of their source.
"""

import errno
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from triten.dispatch.structured.kernel_packages import KernelPackage
from triten.perf import aot
from triten.perf.ahead_of_time.compilation import Cache, compile_all
from triten.perf.ahead_of_time.coverage import kernels_in
from triten.perf.ahead_of_time.request import Request
from triten.perf.ahead_of_time.samples import kernel_files
from triten.runtime.cuda.device_properties import design_of
from triten.runtime.cuda.occupancy import KNOWN, TARGETS
from triten.triton_kernels.budget import DECLARATIONS, FLOATS8, Declaration

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

FAILING = str(Path(__file__).with_name("failing_kernels.py"))
WORKERS = max(1, (os.cpu_count() or 1) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


WHOLE = 90
"""The target that every kernel is compiled for here."""
CARDS = (89, 120)
"""Devices with 99 KiB of shared memory that take the kernels of sm_80."""
OTHERS = tuple(target for target in (*TARGETS, *CARDS) if target != WHOLE)
"""Targets for which each kind of kernel whose code differs by more than its name is compiled once."""


def depends_on_the_target(one: Declaration) -> bool:
    """Return True if a declaration has tensor cores, dtypes that some target lacks, or occupancies by target."""
    blocks = (c.blocks for each in one.configurations.values() for c in each)
    narrow = set(FLOATS8) & one.configurations.keys()
    return bool(one.tensor_cores or one.exact or narrow) or any(isinstance(b, Mapping) for b in blocks)


@cache
def declared_for(target: int) -> dict[str, Declaration]:
    """Return the declarations of a target's kernels, by the kernel's name."""
    KernelPackage("triten.triton_kernels", "cuda").load()  # so that all are declared
    return {
        name: one
        for name, one in DECLARATIONS.items()
        if name.startswith("triten.")
        and any(c.is_for(target) for each in one.configurations.values() for c in each)
    }


def one_of_each_kind(target: int, turn: int) -> set[str]:
    """Kernels for one of `OTHERS`: those that `WHOLE` has not, and of the rest one of each kind.

    A kind is a family with or without matrix instructions, on the same targets. `turn` chooses among its kernels.
    """
    whole, kinds = declared_for(WHOLE), defaultdict(list)
    chosen = set()
    for name, one in sorted(declared_for(target).items()):
        if name not in whole:
            chosen.add(name)
        elif depends_on_the_target(one):
            has = tuple(name in declared_for(each) for each in OTHERS)
            kinds[name.split(".")[2], bool(one.tensor_cores), has].append(name)
    chosen |= {names[(turn + OTHERS.index(target)) % len(names)] for names in kinds.values()}
    return chosen


SPECIALIZED = (
    "attention_warp_specialized",
    "attention_backward_keys_warp_specialized",
    "attention_backward_queries_warp_specialized",
    "matmul_warp_specialized",
)


def with_matrix_instructions(target: int) -> set[str]:
    """Return the kernels that use a target's matrix instructions for 16-bit floats."""
    return {
        *(
            (
                *("matmul_persistent", "grouped_matmul_bulk", "attention_bulk", "convolve_bulk"),
                *("convolve_bulk_strided", "convolve_bulk_phases", "convolve_bulk_parts", "matmul_stream_k"),
            )
            if design_of(target) >= 90
            else ("matmul",)
        ),
        "grouped_matmul",
        "semi_structured_matmul",
        "convolve",
        "convolve_backward_weight",
        "attention",
        *((*SPECIALIZED, "matmul_stream_k_specialized") if target == 90 else ()),
        *(("convolve_backward_weight_bulk",) if target in (90, 100) else ()),
        *(("attention_tensor_memory", "matmul_tensor_memory") if target == 100 else ()),
        "weight4_matmul",
        "weight8_matmul",
        *("weight4_stream_k", "weight8_stream_k"),
        "attention_backward_keys",
        "attention_backward_queries",
        "varlen_attention",
        "varlen_backward_keys",
        "varlen_backward_queries",
    }


@pytest.mark.parametrize("target", (WHOLE, *OTHERS))
def test_every_kernel_keeps_to_its_budget(pytestconfig, target):
    """Compile one configuration of each kernel, for most targets one kernel of each kind; `make aot` compiles
    all.

    The run's seed alternates among the kernels of a kind.
    """
    folder = pytestconfig.cache.mkdir("triten-aot")
    full = (
        declared_for(WHOLE) if target == WHOLE else one_of_each_kind(target, pytestconfig.getoption("seed"))
    )
    meant = {name.rpartition(":")[2] for name in full}
    assert len(meant) > (70 if target == WHOLE else 8)
    chosen = () if target == WHOLE else sorted(meant)
    outcome = aot.hold([target], quick=True, kernels=chosen, workers=WORKERS, cache=folder)
    assert outcome.faults == []
    assert {row.kernel for row in outcome.rows} == meant
    assert len(outcome.rows) > len(meant), "of products also the exact ones"
    matrix = {row.kernel for row in outcome.rows if KNOWN[target].matrix["bf16"] in row.matrix}
    assert matrix == with_matrix_instructions(target) & meant


def test_kernels_of_every_kind_are_compiled_for_every_target():
    """Check that each run takes one kernel of each kind, and that all runs together take every kernel."""
    for target in OTHERS:
        turns = [one_of_each_kind(target, turn) for turn in range(12)]
        depending = {n for n, one in declared_for(target).items() if depends_on_the_target(one)}
        assert set().union(*turns) == depending | (declared_for(target).keys() - declared_for(WHOLE).keys())
        for taken in turns:
            assert {n.split(".")[2] for n in taken} == {n.split(".")[2] for n in depending}
            assert len(taken) < len(depending)


FAULTS = [
    ("many_registers (many registers)", "registers of a thread, where the declared occupancy leaves 32"),
    ("spilling (spilling)", "where 0 bytes are justified"),
    ("greedy (greedy)", "262144 bytes of shared memory, where a block can have 232448"),
    ("greedy (greedy)", "262144 bytes of shared memory, where the declared occupancy leaves 232448"),
    ("scalar (scalar)", "loads of 'x' are 32 bits wide at most, where 128 are claimed"),
    ("scalar (scalar)", "loads in SASS are 32 bits wide at most, where 128 are claimed"),
    ("product (without matrix instructions)", "no HGMMA, but no matrix instruction at all"),
    ("product (rounded to tf32)", "['HGMMA'], where products must round as IEEE 754 has it"),
    ("aborting (aborting): 1024 w4 s3: the compiler's process died (signal SIGABRT)", ""),
    ("not_compiling (not compiling)", "incompatible dimensions at index 0: 1024 and 2048"),
    ("trapping (trapping)", "it traps: the compiler has left out what the target cannot do"),
    ("good (good of an undeclared tile)", "fp32 at 512 w4 s3 is launched, but not declared"),
    ("undeclared (undeclared)", "launched, but not declared"),
    ("failing_kernels:undeclared", "a kernel without a declaration (triton_kernels/budget.py)"),
    ("failing_kernels:unlaunched", "fp32 at 1024 w4 s3 is declared, but no sample reaches it"),
    ("failing_kernels:unlaunched", "claims wide accesses, but no sample shows them"),
    ("failing_kernels:good: a function that no sample launches", ""),
    ("sample 'launching nothing'", "launches nothing"),
    ("sample 'not refused'", "ought to be refused"),
    ("sample 'refused'", "is refused: \"erf_cuda\" not implemented for 'ComplexFloat'"),
]


def test_every_fault_is_found_and_no_other(tmp_path):
    """Test both in one run, because compilations are slow; the second one uses the cache."""
    outcome = aot.hold([90], FAILING, workers=WORKERS, cache=tmp_path)
    faults = [fault.removeprefix("sm_90: ") for fault in outcome.faults]
    for start, end in FAULTS:
        found = [fault for fault in faults if fault.startswith(start) and fault.endswith(end)]
        assert len(found) == 1, (start, end, faults)
        faults.remove(found[0])
    assert faults == []

    rows = {row.kernel: row for row in outcome.rows}
    assert (rows["good"].faults, rows["good"].widest, rows["good"].blocks) == (0, 128, 8)
    assert rows["good"].resident >= 8
    assert (rows["aborting"].resident, rows["aborting"].faults) == (0, 1)
    assert rows["trapping"].registers > 0, "what comes after a death of the compiler is compiled"

    second = aot.hold([90], FAILING, kernels=["good", "aborting"], workers=1, cache=tmp_path)
    assert (second.compiled, second.cached) == (1, 1), "an error is not kept"
    assert second.rows == [rows["aborting"], rows["good"]]


def test_only_what_a_tuner_tries_on_a_card_may_need_more_shared_memory_than_there_is():
    large = {
        "request": {"target": 89},
        "is_tried": True,
        "found": {"shared": 101_377},
        "expected": {"opt_in": 101_376},
    }
    assert aot.is_passed_over(large)
    for change in (
        {"is_tried": False},
        {"request": {"target": 90}},
        {"found": {"shared": 101_376}},
        {"found": {"error": "died"}},
    ):
        assert not aot.is_passed_over(large | change), change


def test_a_damaged_entry_of_the_cache_counts_as_none(tmp_path):
    cache = Cache(tmp_path)
    assert cache.get("ab") is None
    cache.put("ab", {"registers": 40})
    assert cache.get("ab") == {"registers": 40}
    (entry,) = tmp_path.glob("*/*.json")
    for damaged in (b"", b"{ damaged", b"[1]", b"\xff", b"[" * 100_000, b"1" * 5000):
        entry.write_bytes(damaged)
        assert cache.get("ab") is None
    cache.put("ab", {"registers": 41})
    assert cache.get("ab") == {"registers": 41}
    assert list(tmp_path.glob("*/*")) == [entry], "nothing is left lying about"


def test_a_full_disk_leaves_the_entry_of_the_cache_as_it_was(tmp_path, monkeypatch):
    cache = Cache(tmp_path)
    cache.put("ab", {"registers": 40})
    (entry,) = tmp_path.glob("*/*.json")

    def full(path, text, **_):
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(tmp_path), "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        cache.put("ab", {"registers": 41})
    assert cache.get("ab") == {"registers": 40} and list(tmp_path.glob("*/*")) == [entry]


def test_a_fault_of_the_recording_itself_is_raised(tmp_path):
    broken = tmp_path / "broken_samples.py"
    broken.write_text("def samples(capability):\n    raise ZeroDivisionError('of the samples')\n")
    with pytest.raises(
        RuntimeError, match=r"(?s)launches for sm_90 failed.*ZeroDivisionError: of the samples"
    ):
        aot.hold([90], str(broken), cache=tmp_path)


REQUEST = Request("nowhere:nothing", 90, {}, {}, [], {}, "0" * 64)


def test_a_compilation_has_a_limit_of_time(tmp_path):
    results = compile_all([REQUEST], FAILING, Cache(tmp_path), 1, seconds=0.01)
    assert results == {REQUEST.key: {"error": "the compiler took more than 0.01 s"}}
    assert list(tmp_path.iterdir()) == [], "an error is not kept"


def test_the_command_fails_where_there_is_a_fault_and_writes_no_table_of_a_part(tmp_path):
    command = [
        sys.executable,
        "-P",
        "-m",
        "triten.perf",
        "aot",
        "--samples",
        FAILING,
        "--kernel",
        "undeclared",
    ]
    command += ["--target", "90", "--cache", str(tmp_path / "cache"), "--results", str(tmp_path / "results")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].split()[:3] == ["kernel", "target", "configuration"]
    assert lines[1] == "sm_90: undeclared (undeclared): launched, but not declared"
    assert lines[2].startswith("0 compiled and 0 from the cache in ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", sorted(aot.RESULTS.glob("aot-*.json")), ids=lambda path: path.stem)
def test_the_table_that_is_kept_has_no_faults_and_every_kernel(path):
    report = json.loads(path.read_text())
    assert report["faults"] == []
    assert {row["target"] for row in report["rows"]} == {"sm_80", "sm_90", "sm_100"}
    every = {name.rpartition(":")[2] for name in kernels_in(kernel_files())}
    assert {row["kernel"] for row in report["rows"]} == every
    assert all(row["resident"] >= row["blocks"] for row in report["rows"])
    text = path.with_suffix(".md").read_text()
    assert text.count("\n| ") == len(report["rows"]) + 1
