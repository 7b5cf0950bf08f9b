"""Random numbers of the engine mt19937 beside those of PyTorch 2.13 on the CPU (`reference.jsonl`)."""

import base64
import copy
import hashlib
import json
import pickle
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triten as tt

sys.path.insert(0, str(Path(__file__).parent))
from cases import CASES, arrays

sys.path.pop(0)

ROWS = [json.loads(line) for line in Path(__file__).with_name("reference.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def mersenne_twister() -> Iterator[None]:
    tt.random.set_cpu_engine("mt19937")
    yield
    tt.random.set_cpu_engine("philox")


def _wide(dtype: str, array: Any) -> Any:
    if dtype == "bfloat16":
        return (array.astype(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['kind']} {row['name']}" for row in ROWS])
def test_draws_are_pytorchs(row: dict[str, Any]) -> None:
    found = arrays(tt, CASES[row["kind"]][row["name"]])
    assert [(dtype, list(array.shape)) for dtype, array in found] == [(t[0], t[1]) for t in row["tensors"]]
    for (dtype, array), (_, sizes, text) in zip(found, row["tensors"], strict=True):
        held = base64.b64decode(text)
        if row["kind"] == "large":
            assert hashlib.sha256(array.tobytes()).digest() == held
            continue
        expected = np.frombuffer(zlib.decompress(held), array.dtype).reshape(sizes)
        if row["kind"] == "exact" or (array.dtype.kind in "iub" and dtype != "bfloat16"):
            assert array.tobytes() == expected.tobytes()
            continue
        name = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
        near = 1e-5 if row["kind"] == "near" else 8 * tt.finfo(getattr(tt, name)).eps
        np.testing.assert_allclose(_wide(dtype, array), _wide(dtype, expected), rtol=near, atol=near / 10)


def test_every_case_has_a_reference() -> None:
    assert {(row["kind"], row["name"]) for row in ROWS} == {(k, name) for k in CASES for name in CASES[k]}


def test_the_default_generator_changes_its_engine_in_place() -> None:
    generator = tt.default_generator
    tt.manual_seed(3)
    assert tt.get_rng_state().numel() == 5056 and generator.initial_seed() == 3
    drawn = tt.rand(4).tolist()
    tt.random.set_cpu_engine("philox")
    assert tt.default_generator is generator and tt.random.get_cpu_engine() == "philox"
    assert tt.get_rng_state().numel() == 16 and generator.initial_seed() == 3
    assert tt.rand(4).tolist() == tt.rand(4, generator=tt.Generator().manual_seed(3)).tolist() != drawn
    tt.random.set_cpu_engine("mt19937")
    assert tt.rand(4).tolist() == drawn
    with pytest.raises(ValueError, match=r"set_cpu_engine expects one of .*, got 'xorshift'"):
        tt.random.set_cpu_engine("xorshift")
    assert tt.rand(4).tolist() != drawn


def test_generators_keep_their_engine() -> None:
    tt.random.set_cpu_engine("philox")
    before = tt.Generator().manual_seed(1)
    expected = tt.rand(3, generator=tt.Generator().manual_seed(1)).tolist()
    tt.random.set_cpu_engine("mt19937")
    mine = tt.Generator().manual_seed(1)
    assert tt.rand(3, generator=before).tolist() == expected != tt.rand(3, generator=mine).tolist()
    assert tt.Generator("cuda").get_state().numel() == 16
    tt.random.set_cpu_engine("philox")
    tt.randn(3, generator=mine)
    for other in (copy.deepcopy(mine), pickle.loads(pickle.dumps(mine)), mine.clone_state()):
        assert isinstance(other, tt.Generator) and other is not mine
        assert tt.randn(5, generator=other).tolist() == tt.randn(5, generator=mine.clone_state()).tolist()


def test_foreign_states_are_refused_and_change_nothing() -> None:
    generator = tt.Generator().manual_seed(1)
    state = generator.get_state()
    with pytest.raises(RuntimeError, match=r"CPUGeneratorImplState of size 5056 but found .* 16"):
        generator.set_state(tt.zeros(16, dtype=tt.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        generator.set_state(tt.zeros(5056, dtype=tt.uint8))
    assert tt.equal(generator.get_state(), state)
    tt.random.set_cpu_engine("philox")
    with pytest.raises(RuntimeError, match=r"has 16 bytes, got 5056; call tt\.random\.set_cpu_engine"):
        tt.Generator().set_state(state)
    with pytest.raises(RuntimeError, match="does not use offset"):
        generator.get_offset()
    with pytest.raises(RuntimeError, match="does not use offset: set_offset got 4"):
        generator.set_offset(4)


def test_fork_rng_and_checkpoints_restore_the_stream() -> None:
    tt.manual_seed(5)
    tt.randn(3)
    with tt.random.fork_rng():
        inside = tt.randn(7).tolist()
    assert tt.randn(7).tolist() == inside

    x = tt.ones(64, requires_grad=True)
    made = tt.utils.checkpoint.checkpoint(lambda v: tt.dropout(v, 0.5, True), x, use_reentrant=False)
    made.sum().backward()
    assert x.grad is not None and tt.equal(x.grad, made)


def test_compiled_dropout_draws_what_eager_dropout_draws() -> None:
    pytest.importorskip("llvmlite")

    def function(x: tt.Tensor) -> tt.Tensor:
        return tt.relu(tt.dropout(x * 2, 0.3, True) + 1)

    compiled, x = tt.compile(function), tt.arange(-512.0, 512.0).reshape(16, 64)
    for engine in ("philox", "mt19937", "philox"):
        tt.random.set_cpu_engine(engine)
        for seed in (1, 2, 3):
            tt.manual_seed(seed)
            expected = function(x)
            tt.manual_seed(seed)
            assert tt.equal(compiled(x), expected)


def test_threads_share_no_words() -> None:
    import threading

    generator, drawn = tt.Generator().manual_seed(2), []

    def draw() -> None:
        for _ in range(50):
            drawn.extend(tt.rand(20, dtype=tt.float64, generator=generator).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = tt.rand(4000, dtype=tt.float64, generator=tt.Generator().manual_seed(2)).tolist()
    assert sorted(drawn) == sorted(whole)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize(("name", "copies"), [("uniform_", 1), ("normal_", 3)])
def test_large_draws_need_little_memory_beside_their_result(name: str, copies: int, dtype: tt.dtype) -> None:
    x = tt.empty(1 << 21, dtype=dtype)
    draw = {"uniform_": lambda: x.uniform_(-1, 1), "normal_": x.normal_}[name]
    tracemalloc.start()
    try:
        draw()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < copies * x.nbytes
