"""The command finds faults, survives dying workers, and leaves a valid result file."""

import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gpu_check.cases import FIRST_PASS, all_cases
from gpu_check.command import KERNELS_CHECK, main, parse
from gpu_check.first_checks import check_names
from gpu_check.kernels import entry_kernels
from gpu_check.layouts import Poisoning

import triten as tt

SELECTION = (
    r"^(exp|sum\.dim_IntList|mm|where\.self|cumsum|_softmax|max\.dim|gather|rand|copy)#0/(float32|bool)/"
)


def test_a_selection_passes_and_its_file_says_so(check: Callable[..., Any]) -> None:
    run = check("--only", SELECTION, "--dtypes", "float32", "--seed", "5")
    assert run.status == 0, run.output
    section = run.section
    assert set(section["counts"]) <= {"passed", "refused"}
    assert section["counts"]["passed"] > 40
    assert section["complete"] is True
    assert (section["seed"], section["sizes"], section["interpreted"]) == (5, "small", True)
    assert {"triten", "triton", "numpy", "python"} <= set(section["versions"])
    assert section["compiled"] > 10
    assert set(section["kernels"]) <= set(entry_kernels())
    assert run.checks["exp#0/float32/contiguous"]["forms"] == ["functional", "in place", "out=", "backward"]
    assert KERNELS_CHECK not in run.checks, "a selection is no first pass: it need not reach every kernel"
    assert run.output.rstrip().endswith(f"written to {run.path}")


def test_every_operator_with_its_gradients(check: Callable[..., Any]) -> None:
    """On the device as on the CPU, in memory that is poisoned; `test_emulated.py` has a part of it compiled."""
    run = check("--first-pass", "--only", "#")
    assert run.status == 0, run.output
    assert run.section["complete"] is True and run.section["interpreted"] is True
    assert len(run.checks) == sum(rank == FIRST_PASS for rank, _ in all_cases())
    assert set(run.section["counts"]) <= {"passed", "refused"}
    assert run.section["counts"]["passed"] > 1000, run.output
    assert sum("backward" in answer.get("forms", []) for answer in run.checks.values()) > 300


FAULTS = {
    "exp": ("nothing", "failed", "elements are wrong, first [0, 0]: got nan"),
    "log": ("short", "failed", "1 of 15 elements are wrong, first [2, 4]: got nan"),
    "sin": ("raises", "failed", "functional: failed: ValueError: planted"),
    "cos": ("dies", "died", "ended with status 42"),
    "tanh": ("hangs", "died", "no answer within 20 s"),
}


def test_wrong_kernels_and_dying_workers_are_findings_and_the_rest_goes_on(check: Callable[..., Any]) -> None:
    """Inject kernels that write nothing, omit an element, raise, kill the process, or hang; the check reports each."""
    plants = ",".join(f"{name}_stub:{fault}" for name, (fault, *_) in FAULTS.items())
    run = check(
        "--only",
        r"^(exp|log|sin|cos|tanh|sinh|asinh)#0/float32/contiguous",
        "--plant",
        plants,
        "--task-seconds",
        "20",
    )
    assert run.status == 1
    healthy = {"sinh", "asinh"}
    assert {name.partition("#")[0] for name in run.checks} == FAULTS.keys() | healthy
    assert run.section["complete"] is True
    for name, (_, status, reason) in FAULTS.items():
        answer = run.checks[f"{name}#0/float32/contiguous"]
        assert (answer["status"], reason in answer["reason"]) == (status, True), answer
        assert f"{status.upper():<7}{name}#0/float32/contiguous" in run.output
    for name in healthy:
        assert run.checks[f"{name}#0/float32/contiguous"]["status"] == "passed"
    for form in ("functional", "in place", "out="):
        assert f"{form}: failed" in run.checks["log#0/float32/contiguous"]["reason"]
    assert "backward: failed" in run.checks["exp#0/float32/contiguous"]["reason"], "it uses the result"


def test_a_run_that_is_cut_off_is_valid_and_resumes(check: Callable[..., Any]) -> None:
    arguments = ("--only", r"^(exp|log|sin)#0/float32/(contiguous|sliced)", "--seed", "9")
    cut = check(*arguments, "--seconds", "0.001")
    assert cut.status == 0
    assert cut.section["complete"] is False
    assert cut.section["not_run"] == 6 - len(cut.checks)
    assert "INCOMPLETE" in cut.output
    payload = json.loads(cut.path.read_text())
    payload["check"]["checks"] = {"exp#0/float32/contiguous": {"status": "failed", "reason": "kept"}}
    payload["other"] = "kept too"
    cut.path.write_text(json.dumps(payload))
    rest = check(*arguments, "--resume", str(cut.path))
    assert rest.status == 1, "what failed before still counts"
    statuses = rest.statuses()
    assert len(statuses) == 6
    assert statuses.pop("exp#0/float32/contiguous") == "failed"
    assert set(statuses.values()) == {"passed"}
    assert rest.section["complete"] is True
    assert rest.section["seed"] == 9
    assert json.loads(rest.path.read_text())["other"] == "kept too"


def test_a_file_of_another_device_is_not_resumed(
    check: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"check": {"checks": {}, "seed": 1, "device": "another", "versions": {}}}))
    run = check("--only", "^exp#0/float32/contiguous", "--resume", str(path))
    assert run.status == 2
    assert "device differs: another there" in run.output
    path.write_text("{}")
    assert main(["--resume", str(path)]) == 2
    assert "no section 'check'" in capsys.readouterr().err


def test_without_a_gpu_it_says_so(check: Callable[..., Any]) -> None:
    if tt.library.driver().__class__.__name__ != "InterpreterDriver":
        pytest.skip("there is one")
    run = check("--only", "^exp#0/float32/contiguous", interpret=False)
    assert run.status == 2
    assert "No CUDA GPUs are available" in run.output
    assert not run.path.exists()


def test_bad_command_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--shard", "3/2"], ["--shard", "x"], ["--shard", "0/2"]):
        with pytest.raises(SystemExit, match="2"):
            parse(arguments)
    assert main(["--only", "no such name"]) == 2
    assert "matches 'no such name'" in capsys.readouterr().err


def test_shards_are_apart_and_together_everything(capsys: pytest.CaptureFixture[str]) -> None:
    def listed(*arguments: str) -> list[str]:
        assert main(["--list", "--first-pass", *arguments]) == 0
        return capsys.readouterr().out.split("\n")[:-1]

    parts = [listed("--shard", f"{i}/3") for i in (1, 2, 3)]
    assert sorted(itertools.chain(*parts)) == sorted(listed())
    assert set(parts[0]) > set(check_names())


def test_the_runtimes_checks(check: Callable[..., Any]) -> None:
    """Run the runtime's checks: each passes, is not built, or needs a GPU; those that the interpreter supports pass."""
    run = check(
        "--only",
        r"^(launch|driver|allocator|random|cuda|factorisations|optimizers|products|tuning|sizes|sparse|nccl): ",
    )
    assert run.status == 0, run.output
    statuses = run.statuses()
    assert set(statuses) == set(check_names())
    assert set(statuses.values()) <= {"passed", "not built", "needs a card"}
    for name in (
        "launch: triten's driver gives right results",
        "launch: torch stays out",
        "driver: events order streams",
        "allocator: live blocks never overlap, and freeing all returns to zero",
        "allocator: out of memory is refused, and everything works on",
        "allocator: a block that another stream uses is not handed out",
        "random: uniform numbers, integers and permutations have the CPU's bits",
        "cuda: a user's kernel through library.launch",
    ):
        assert statuses[name] == "passed", name
    for name in ("launch: more than 48 KB of shared memory", "launch: a TMA descriptor by value"):
        assert statuses[name] == "needs a card", name
    assert all(answer.get("reason") for answer in run.checks.values() if answer["status"] != "passed")


def test_memory_is_poisoned_each_time_it_is_handed_out() -> None:
    allocator = Poisoning(tt.library.get_allocator("cuda"))
    tt.library.set_allocator("cuda", allocator)
    try:
        for _ in range(2):
            x = tt.empty(100, dtype=tt.float64, device="cuda")
            assert bool(x.isnan().all())
            x.fill_(1.0)
            del x
    finally:
        tt.library.set_allocator("cuda", allocator.source)


def test_torch_is_blocked_in_the_workers() -> None:
    from gpu_check.worker import block_torch

    before, finders = sys.modules.pop("torch", None), sys.meta_path[:]
    try:
        block_torch()
        with pytest.raises(ImportError):
            import torch  # noqa: F401
        assert "torch" not in sys.modules, "Triton takes an entry for an import, whatever it is"
    finally:
        sys.meta_path[:] = finders
        if before is not None:
            sys.modules["torch"] = before
