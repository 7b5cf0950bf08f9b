"""The selection reaches a change's tests in both layouts of the package, and shortens only tables of operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from triten.tests.affected.__main__ import main
from triten.tests.affected.changes import Change, parse_diff
from triten.tests.affected.selection import BUDGET, Selector, path_words, quick_files, reached_names
from triten.tests.affected.tree import ROOT, Source, Tree, module_name


@pytest.fixture(scope="module")
def selector() -> Selector:
    """Read the checkout once."""
    return Selector(Tree())


def change(selector: Selector, module: str, word: str) -> Change:
    """Return a change of the line of a module that has a word, which must stand in one definition's first line."""
    source = selector.tree.by_module[module]
    line = next(n for n, text in enumerate(source.text.splitlines(), 1) if word in text)
    return Change(source.path, (line,))


@pytest.mark.parametrize(
    ("module", "word", "tests"),
    [
        (
            "triten.cpu_fallback.normalization.softmax",
            "def _softmax_backward",
            ["tests/ops/test_softmax.py", "tests/cpu_fallback/normalization/test_softmax_blocks.py"],
        ),
        (
            "triten.triton_kernels.normalization.softmax",
            "def ",
            ["tests/ops/test_softmax.py", "tests/triton_kernels/normalization/test_softmax.py"],
        ),
        (
            "triten.dispatch.structured.meta.pooling",
            "def pool_window",
            ["tests/ops/test_pooling.py", "tests/dispatch/layers/batching/test_rules.py"],
        ),
        (
            "triten.dispatch.autograd.formulas.normalization",
            "def batch_norm_jvp",
            ["tests/ops/test_normalization.py", "tests/dispatch/autograd/test_every_derivative.py"],
        ),
        ("triten.compiler.passes.donations", "def donate_dead", ["tests/compiler/test_liveness.py"]),
        (
            "triten.distributed.coalescing",
            "def ",
            ["tests/distributed/test_collectives.py"],
        ),
        ("triten.runtime.cuda.memory.block", "def ", ["tests/runtime/cuda/memory/test_blocks.py"]),
    ],
    ids=["kernel", "Triton kernel", "meta function", "formula", "compiler pass", "collective", "allocator"],
)
def test_a_change_reaches_the_tests_of_its_operators_and_importers(
    selector: Selector, module: str, word: str, tests: list[str]
) -> None:
    selection = selector.select([change(selector, module, word)])
    assert set(tests) <= set(selection.files[:30])
    assert selection.seconds <= BUDGET


def test_an_entry_of_a_formula_reaches_its_operator(selector: Selector) -> None:
    text = (ROOT / "dispatch/derivatives.yaml").read_text().splitlines()
    line = next(n for n, each in enumerate(text, 1) if each.startswith("- name: _softmax("))
    selection = selector.select([Change("dispatch/derivatives.yaml", (line + 1,))])
    assert "_softmax" in selection.names and "softmax" in selection.names
    assert "tests/ops/test_softmax.py" in selection.files[:5]
    assert "tests/dispatch/autograd/test_every_derivative.py" in selection.files[:5]


def test_a_change_of_the_core_runs_a_broad_sample(selector: Selector) -> None:
    module = selector.tree.by_module["triten.runtime.device"]
    selection = selector.select([Change(module.path, (30,))])
    assert selection.core
    assert "tests/runtime/test_device.py" in selection.files
    assert len(set(quick_files()) - set(selection.files)) <= len(quick_files()) // 4
    assert selection.seconds <= BUDGET


def test_a_changed_test_runs_first_and_documents_reach_their_checks(selector: Selector) -> None:
    changes = [Change("docs/design.md", (1,)), Change("tests/ops/test_fft_strides.py", (1,))]
    files = selector.select(changes).files
    assert files[0] == "tests/ops/test_fft_strides.py"
    assert all(each.startswith("tests/docs/") for each in files[1:])


def test_the_budget_keeps_the_most_relevant(selector: Selector) -> None:
    one = change(selector, "triten.cpu_fallback.normalization.softmax", "def _softmax_backward")
    small, whole = selector.select([one], budget=30.0), selector.select([one])
    assert small.seconds <= 30.0 < whole.seconds
    assert set(small.files) < set(whole.files)
    assert small.left_out > whole.left_out


def test_files_of_the_lists_exist(selector: Selector) -> None:
    """Costs of files that were removed would go unnoticed, too."""
    assert set(quick_files()) <= set(selector.tree.tests)
    assert set(selector.costs) <= set(selector.tree.tests)


@pytest.mark.parametrize(
    "prefix", ["", "triten/"], ids=["the root is the package", "public part in a folder"]
)
def test_imports_are_found_in_both_layouts(tmp_path: Path, prefix: str) -> None:
    late = "def late():\n    from ..runtime.memory import (\n        block,\n        pool as p,\n    )"
    files = {
        f"{prefix}__init__.py": "",
        f"{prefix}nn/__init__.py": "from . import norm\n",
        f"{prefix}nn/norm.py": late,
        "runtime/__init__.py": "",
        "runtime/memory/__init__.py": "from .block import Block",
        "runtime/memory/block.py": "if TYPE_CHECKING:\n    from ...nn import norm\n\nclass Block: ...\n",
        "runtime/memory/pool.py": "import os, sys\n",
        "tests/test_norm.py": "from triten import nn\nfrom triten.nn.norm import late\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    if prefix:
        (tmp_path / "triten/runtime").symlink_to("../runtime")
    tree = Tree(tmp_path)
    assert sorted(tree.tests) == ["tests/test_norm.py"]
    assert tree.dependents("triten.runtime.memory.block") == {
        "triten.runtime.memory.block": 0,
        "triten.runtime.memory": 1,
        "triten.nn.norm": 1,
        "triten.nn": 2,
        "triten.tests.test_norm": 2,
    }
    assert tree.dependents("triten.nn.norm").keys() == {
        "triten.nn.norm",
        "triten.nn",
        "triten.tests.test_norm",
    }


def test_names_of_modules_do_not_depend_on_the_layout() -> None:
    assert module_name("nn/modules/linear.py") == module_name("triten/nn/modules/linear.py")
    assert module_name("triten/__init__.py") == module_name("__init__.py") == "triten"


def test_a_definition_reaches_those_that_mention_it() -> None:
    text = "LEAST = 3\n\n\ndef fits(n):\n    return n >= LEAST\n\n\nclass A:\n    def run(self):\n        fits(1)\n"
    source = Source("x.py", "triten.x", False, text)
    assert reached_names(source, {"LEAST": 1.0}) == pytest.approx(
        {"LEAST": 1, "fits": 0.8, "A": 0.64, "run": 0.64}
    )


def test_a_diff_says_which_lines_changed() -> None:
    text = (
        "--- a/x.py\n+++ b/x.py\n@@ -3,2 +3,0 @@ def f():\n-a\n-b\n@@ -9 +7 @@\n-c\n+d\n"
        "--- a/old.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-e\n"
    )
    assert parse_diff(text) == [Change("x.py", (3, 4, 7)), Change("old.py", (0, 1))]


def test_words_of_paths_leave_out_what_says_nothing() -> None:
    assert path_words("tests/dispatch/autograd/test_inplace.py") == {"autograd", "inplace"}


def test_the_command_lists_files_without_running_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--change", "tests/ops/test_softmax.py:40"]) == 0
    assert "tests/ops/test_softmax.py" in capsys.readouterr().out


def test_the_representative_tests_take_less_than_two_minutes_on_two_cores(selector: Selector) -> None:
    assert sum(selector.costs[path] for path in quick_files()) <= 180.0
