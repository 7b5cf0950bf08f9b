"""Fused kernels for CUDA: their source, its files, and the launches of a program."""

import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten.compiler.pipeline import run_passes
from triten.compiler.schedule import fused_schedule
from triten.compiler.triton.source_files import PREFIX, module_of
from triten.tests.compiler.beside_eager import agree, drawn, same

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.compiler.triton.pointwise import write_kernel
from triten.compiler.triton.source_text import number_text
from triten.runtime.cuda.driver import driver

F = tt.nn.functional


@pytest.fixture(autouse=True)
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder for sources; forget the modules that tests make, so that each writes its file."""
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path))
    for name in [name for name in sys.modules if name.startswith(PREFIX)]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path / "sources"


def launches(run: Callable[[], Any]) -> int:
    before = driver().launches
    run()
    return driver().launches - before


def chain(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
    return tt.relu((x + y) * 2 - 0.5).exp() + y


def test_a_chain_is_one_launch() -> None:
    compiled = tt.compile(chain, fullgraph=True)
    x, y = drawn(6, 20, device="cuda", seed=1), drawn(6, 20, device="cuda", seed=2)
    same(compiled(x, y), chain(x, y))
    assert launches(lambda: chain(x, y)) == 6
    assert launches(lambda: compiled(x, y)) == 1


def test_launches_of_a_program() -> None:
    def softmax(x: tt.Tensor) -> tt.Tensor:
        e = (x * 2 - x.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True) * 3 + 1

    compiled = tt.compile(softmax, fullgraph=True)
    x = drawn(3, 8, device="cuda")
    same(compiled(x), softmax(x))
    assert launches(lambda: softmax(x)) == 8
    assert launches(lambda: compiled(x)) == 1


def test_a_derivative_is_fused_as_well() -> None:
    def step(f: Any) -> Callable[[], Any]:
        x, y = drawn(6, 4, device="cuda", grad=True), drawn(6, 4, device="cuda")
        weights = drawn(6, 4, device="cuda", seed=3)
        return lambda: tt.autograd.grad(f(x, y), x, weights)

    compiled = tt.compile(chain, fullgraph=True)
    same(step(compiled)(), step(chain)())
    assert launches(step(compiled)) == 2 < launches(step(chain))


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 1000])
def test_edges_of_blocks(size: int) -> None:
    agree(chain, lambda: (drawn(size, device="cuda", seed=1), drawn(size, device="cuda", seed=2)), calls=1)


def test_sources_name_operators_and_lie_in_the_cache(sources: Path) -> None:
    compiled = tt.compile(chain, fullgraph=True)
    compiled(drawn(6, 20, device="cuda"), drawn(20, device="cuda"))
    (path,) = sources.iterdir()
    assert re.fullmatch(PREFIX + r"[0-9a-f]{32}\.py", path.name)
    text = path.read_text(encoding="utf-8")
    assert text.startswith('"""add.Tensor, mul.Tensor, sub.Tensor, relu, exp, add.Tensor: [6, 20].\n')
    for line in (
        "# %add : float32[6, 20] cuda:0 = aten.add.Tensor(",
        "# %mul : float32[6, 20] cuda:0 = aten.mul.Tensor(%add, 2)",
        "# %relu : float32[6, 20] cuda:0 = aten.relu(",
        "def add_mul_sub_relu_exp_add(a0, a1, b0, n, BLOCK: tl.constexpr):",
    ):
        assert line in text
    assert text.count("tl.store(") == 1 and text.count("tl.load(") == 2


def test_explain_shows_the_same_source(sources: Path) -> None:
    args = drawn(6, 20, device="cuda"), drawn(20, device="cuda")
    (text,) = tt.compiler.explain(chain, *args).sources.values()
    assert not sources.exists(), "nothing is computed"
    tt.compile(chain)(*args)
    # The names of a program's values come from its tracing, and are the same here and there.
    assert [path.read_text(encoding="utf-8") for path in sources.iterdir()] == [text]


def kernel_source(function: Callable[..., Any], *args: tt.Tensor) -> str:
    graph = run_passes(tt.func.make_graph(function, "fake")(*args).graph)
    (kernel,) = fused_schedule(graph).kernels
    return write_kernel(kernel).text


def test_an_operand_is_loaded_once_and_indexed_by_its_strides() -> None:
    text = kernel_source(
        lambda x, y, z: (x * y + y) * z + x,
        drawn(4, 6, device="cuda"),
        drawn(6, 4, device="cuda").t(),
        drawn(1, 1, device="cuda"),
    )
    loads = [line.strip() for line in text.splitlines() if "tl.load(" in line]
    assert loads == [
        "x0 = tl.load(a0 + index, mask=mask)  # %x",
        "x1 = tl.load(a1 + (i0 * 4 + i1), mask=mask)  # %y",
        "x2 = tl.load(a2)  # %z",
    ]
    assert "i0 = index % 6" in text and "i1 = r0" in text


def test_steps_are_rounded_to_their_dtypes() -> None:
    text = kernel_source(
        lambda x: (x * 2 + 1).float().exp().to(tt.float64), drawn(8, device="cuda", dtype=tt.bfloat16)
    )
    rounded = re.findall(r"y\d = convert\(f_\w+\(.*\), (tl\.\w+)\)", text)
    assert rounded == ["tl.bfloat16", "tl.bfloat16", "tl.float32", "tl.float32", "tl.float64"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.5, "2.5"), (-3, "-3"), (float("inf"), 'float("inf")'), (float("nan"), 'float("nan")')],
)
def test_numbers_in_sources(value: float, text: str) -> None:
    assert number_text(value) == text
    agree(lambda x: (x * value + 1).maximum(x * -1), lambda: (drawn(5, device="cuda"),), calls=1)


def test_equal_texts_are_one_module(sources: Path) -> None:
    first = module_of("answer = 42\n")
    assert module_of("answer = 42\n") is first and first.answer == 42
    assert module_of("answer = 43\n").answer == 43
    assert len(list(sources.iterdir())) == 2
    assert first.__file__ is not None and Path(first.__file__).parent == sources
    assert os.name != "posix" or sources.stat().st_mode & 0o777 == 0o700, "whatever the umask"


@pytest.mark.parametrize("damage", ["answer = 1\n", "", "answer =", "\0"])
def test_a_damaged_file_is_written_again(sources: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "answer = 42\n"
    path = Path(str(module_of(text).__file__))
    path.write_text(damage, encoding="utf-8")
    monkeypatch.delitem(sys.modules, path.stem)
    assert module_of(text).answer == 42
    assert path.read_text(encoding="utf-8") == text
    assert list(sources.iterdir()) == [path], "no temporary file is left"


def test_a_file_that_is_right_is_not_written_again(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(str(module_of("answer = 42\n").__file__))
    before = path.stat().st_ino
    monkeypatch.delitem(sys.modules, path.stem)
    module_of("answer = 42\n")
    assert path.stat().st_ino == before


def test_where_nothing_can_be_written_kernels_run_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TRITEN_CACHE_DIR", os.fspath(tmp_path / "file"))
    made = module_of("def f(): return 42\n")
    assert made.f() == 42 and str(made.__file__).startswith("<triten generated ")
    assert inspect.getsource(made.f) == "def f(): return 42\n"
    compiled = tt.compile(chain, fullgraph=True)
    x, y = drawn(5, device="cuda", seed=1), drawn(5, device="cuda", seed=2)
    same(compiled(x, y), chain(x, y))


def test_steps_of_single_numbers_are_one_kernel() -> None:
    def scaled(x: tt.Tensor) -> tt.Tensor:
        return (x.mean() * 3 + 1).sqrt() / (x.abs().amax() + 2)

    x = drawn(6, 40, device="cuda", grad=True)
    found = tt.compiler.explain(scaled, x)
    assert [k.name for k in found.schedules[0].kernels if "sqrt" in k.name] == ["mul_add_sqrt_add_div"]
    results = []
    for run in (scaled, tt.compile(scaled, fullgraph=True)):
        x.grad = None
        made = run(x)
        made.sum().backward()
        results.append([made.detach(), x.grad])
    same(*results)
