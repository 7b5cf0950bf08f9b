"""Flags of libraries: what they keep, what they refuse, and what contexts restore."""

from __future__ import annotations

import sys

import pytest

import triten as tt
from triten.backends import flags
from triten.dispatch.functions import einsum_path

B = tt.backends

KEPT = [
    (B.cudnn, ("enabled", "benchmark", "deterministic", "allow_tf32")),
    (B.mkldnn, ("enabled", "deterministic", "allow_tf32")),
]


@pytest.mark.parametrize(("module", "names"), KEPT)
def test_a_block_sets_flags_and_leaves_those_that_are_none(module, names: tuple[str, ...]) -> None:
    before = {name: getattr(module, name) for name in names}
    for name in names:
        others = dict.fromkeys(names)
        with module.flags(**{**others, name: not before[name]}):
            assert {each: getattr(module, each) for each in names} == {**before, name: not before[name]}
        assert {each: getattr(module, each) for each in names} == before
    assert module.set_flags() == tuple(before.values())


@pytest.mark.parametrize(("module", "names"), KEPT)
def test_flags_take_bools_and_no_other_name(module, names: tuple[str, ...]) -> None:
    for name in names[:-1]:
        for value in (1, None):
            with pytest.raises(RuntimeError, match=f"{name}.*expects a bool, but got"):
                setattr(module, name, value)
        with pytest.raises(RuntimeError, match="expects a bool"), module.flags(**{name: 1}):
            pass
    with pytest.raises(AttributeError, match="no flag 'enable'"):
        module.enable = True


def test_frozen_flags_are_set_by_contexts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "_is_frozen", False)
    B.disable_global_flags()
    assert B.flags_frozen()
    for module in (B.cudnn, B.mkldnn, B.opt_einsum):
        with pytest.raises(RuntimeError, match="after disable_global_flags"):
            module.enabled = module.enabled
    with B.cudnn.flags(benchmark=True):
        assert B.cudnn.benchmark
    assert not B.cudnn.benchmark
    B.quantized.engine = B.quantized.engine  # PyTorch does not freeze it


def test_engines_are_names() -> None:
    assert B.quantized.engine in B.quantized.supported_engines
    before = B.quantized.engine
    B.quantized.engine = "fbgemm"
    assert B.quantized.engine == "fbgemm"
    B.quantized.engine = before
    with pytest.raises(RuntimeError, match="not a valid value"):
        B.quantized.engine = "other"
    with pytest.raises(RuntimeError, match="cannot be set"):
        B.quantized.supported_engines = []


def test_libraries_that_are_not_used() -> None:
    assert not B.cusparselt.is_available() and B.cusparselt.version() is B.cusparselt.get_max_alg_id() is None
    assert not B.nnpack.is_available() and B.nnpack.set_flags(True) == (True,)
    with B.nnpack.flags(enabled=False):
        assert B.nnpack.set_flags(False) == (False,)


@pytest.mark.parametrize("function", [B.cuda.preferred_linalg_library, B.cuda.preferred_blas_library])
def test_preferred_libraries(function, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(B.cuda, "_preferred", dict(B.cuda._preferred))
    name = "cusolver" if "linalg" in function.__name__ else "cublaslt"
    assert function().value == "default" and function(name).value == name == function().value
    assert function(function("default")) == function()
    with pytest.raises(RuntimeError, match="Unknown input value"):
        function("other")
    with pytest.raises(RuntimeError, match="not used"):
        function("magma" if "linalg" in function.__name__ else "ck")


@pytest.mark.skipif(not einsum_path.is_available(), reason="opt_einsum is not installed")
@pytest.mark.parametrize("form", ["operands", "list", "sublists"])
def test_einsum_contracts_in_the_order_of_opt_einsum(form: str) -> None:
    sizes: list[list[int]] = []

    class Log(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            if func.name() == "aten::bmm":  # of a batch of one
                sizes.append([*args[0].shape[1:], args[1].shape[2]])
            return func(*args, **(kwargs or {}))

    a, b, c = tt.rand(20, 30), tt.rand(30, 40), tt.rand(40, 1)
    given = {
        "operands": ("ij,jk,kl->il", a, b, c),
        "list": ("ij,jk,kl->il", [a, b, c]),
        "sublists": (a, [0, 1], b, [1, 2], c, [2, 3], [0, 3]),
    }[form]
    with Log():
        found = tt.einsum(*given)
    assert sorted(sizes) == [[20, 30, 1], [30, 40, 1]]
    sizes.clear()
    with Log(), B.opt_einsum.flags(enabled=False):
        tt.testing.assert_close(tt.einsum(*given), found)
    assert sizes == [[20, 30, 40], [20, 40, 1]] and B.opt_einsum.enabled


def test_flags_of_opt_einsum(monkeypatch: pytest.MonkeyPatch) -> None:
    module = B.opt_einsum
    if module.is_available():
        assert module.enabled is True and module.strategy == "auto"
        assert module.get_opt_einsum() is sys.modules["opt_einsum"]
        with module.flags(strategy="greedy"):
            assert module.strategy == "greedy"
        with pytest.raises(ValueError, match="must be one of"):
            module.set_flags(_strategy="other")
        with module.flags(enabled=False), pytest.raises(ValueError, match="not enabled"):
            module.set_flags(_strategy="greedy")
        with module.flags():
            module.strategy = "auto-hq"  # an assignment is not checked
            assert tt.einsum("ij,jk,kl->il", *[tt.ones(2, 2)] * 3).tolist() == [[4.0, 4.0]] * 2
            module.strategy = "other"
            with pytest.raises(KeyError, match="'other' not found"):
                tt.einsum("ij,jk,kl->il", *[tt.ones(3, 3)] * 3)
        assert module.strategy == "auto"
    monkeypatch.setattr(einsum_path, "is_available", lambda: False)
    assert module.enabled is False and module.strategy is None and module.get_opt_einsum() is None
    with pytest.raises(ValueError, match="not available"):
        module.enabled = True
    assert einsum_path.einsum_path("i,i,i->i", [tt.ones(1)] * 3) is None
