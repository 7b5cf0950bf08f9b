"""Every operator of the registry has a sample or a reason to have none, and every sample's values are as described."""

import ast

import numpy as np
import pytest
from gpu_check import first_checks
from gpu_check.arguments import CARD, SMALL, B, I, T, draw
from gpu_check.brief import (
    WITH_KERNELS_OF_GRADIENTS,
    WITH_KERNELS_OF_ROWS,
    takes_case,
    takes_gradients,
)
from gpu_check.cases import all_cases, dtypes_of, layouts_of, table
from gpu_check.first_checks import some_of
from gpu_check.kernels import entry_kernels, is_compiled, touches_memory, unreached
from gpu_check.layouts import LAYOUTS, fetch, place_of, poisoned, put
from gpu_check.operators import all_forms, has_own_kernel, unsampled
from gpu_check.samples import Sample, all_samples

import triten as tt


def test_every_operator_has_a_sample_or_a_reason() -> None:
    assert unsampled(all_samples()) == []


def test_an_operator_without_a_sample_is_named() -> None:
    assert unsampled([s for s in all_samples() if s.operator != "exp2"]) == ["exp2"]
    assert set(unsampled([])) > {"add.Tensor", "mm", "rand"}


def test_every_row_names_an_operator() -> None:
    assert {sample.operator for sample in all_samples()} <= set(all_forms())


def test_the_forms_of_an_operator() -> None:
    forms = all_forms()["add.Tensor"]
    assert (forms.functional, forms.inplace, forms.out, forms.out_names) == (
        "add.Tensor",
        "add_.Tensor",
        "add.out",
        ("out",),
    )
    forms = all_forms()["max.dim"]
    assert (forms.out, forms.out_names) == ("max.dim_max", ("max", "max_values"))
    assert all_forms()["zeros.out"].functional is None


def test_a_case_is_named_so_that_it_can_be_run_alone() -> None:
    names = [case.name for _, case in all_cases()]
    assert len(set(names)) == len(names)
    assert "add.Tensor#0/bfloat16/transposed" in names


def test_the_first_pass_comes_first_and_reaches_every_row() -> None:
    ranks = [rank for rank, _ in all_cases()]
    assert ranks == sorted(ranks)
    assert [(c.operator, c.row) for rank, c in all_cases() if rank == 0] == list(table())


def test_given_dtypes_and_layouts_keep_those_alone() -> None:
    cases = [case for _, case in all_cases(["int64"], ["sliced"])]
    assert {(c.dtype, c.layout) for c in cases} == {("int64", "sliced")}


@pytest.mark.parametrize("sizes", [SMALL, CARD], ids=["small", "card"])
def test_drawn_arguments_fit_their_description(sizes: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    assert draw(rng, T("a b", low=0.5, high=0.75), tt.float32, sizes).shape == (sizes["a"], sizes["b"])
    values = draw(rng, T("a b", low=0.5, high=0.75), tt.bfloat16, sizes).astype(np.float64)
    assert values.min() >= 0.5
    assert values.max() <= 0.75
    assert draw(rng, T("a b", low=0.5), tt.uint8, sizes).min() >= 1
    assert draw(rng, T("a b"), tt.int8, sizes).min() < 0 <= draw(rng, T("a b"), tt.uint8, sizes).min()
    indices = draw(rng, I("a d", "b", unique=True), tt.float32, sizes)
    assert indices.shape == (sizes["a"], sizes["d"])
    assert 0 <= indices.min() <= indices.max() < sizes["b"]
    assert all(len(set(row)) == len(row) for row in indices.tolist())
    assert draw(rng, B(), tt.float32, sizes).dtype == bool


@pytest.mark.parametrize(
    ("layout", "strides", "offset"),
    [
        ("contiguous", (3, 1), 0),
        ("transposed", (1, 2), 0),
        ("sliced", (6, 2), 1),
        ("unaligned", (3, 1), 1),
        ("expanded", (0, 1), 0),
        ("channels_last", (3, 1), 0),
    ],
)
def test_what_a_layout_means(layout: str, strides: tuple[int, ...], offset: int) -> None:
    place = place_of((2, 3), layout)
    assert (place.strides, place.offset) == (strides, offset)
    assert place_of((2, 3, 4, 5), "channels_last").strides == (60, 1, 15, 3)
    if offset:
        assert put(np.ones((2, 3), np.float32), layout, "cuda").data_ptr() % 16 == 4


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.bool, tt.complex64, tt.float8_e5m2], ids=str)
def test_what_is_put_is_fetched_under_every_layout(layout: str, device: str, dtype: tt.dtype) -> None:
    values = np.broadcast_to(np.arange(40).reshape(1, 5, 2, 4) % 2, (3, 5, 2, 4)).astype(dtype.np)
    tensor = put(values, layout, device)
    assert tensor.stride() == place_of(values.shape, layout).strides
    assert fetch(tensor).tolist() == values.tolist()


def test_a_poisoned_tensor_is_nan_or_no_bool_everywhere() -> None:
    assert np.isnan(fetch(poisoned((3, 2), tt.bfloat16, "transposed", "cuda")).astype(np.float32)).all()
    assert fetch(poisoned((3, 2), tt.bool, "contiguous", "cuda")).view(np.uint8).tolist() == [[255, 255]] * 3


def test_a_row_that_names_bytes_runs_only_where_those_are() -> None:
    sample = Sample("_strided_from", (T("3 6"), [2, 2], [1, 6], 1), dense=True)
    assert not {"sliced", "expanded"} & set(layouts_of(sample, "float32"))
    assert dtypes_of(sample)[0] == "float32"


def test_entry_kernels_are_told_from_functions() -> None:
    def of(source: str) -> bool:
        node = ast.parse(source).body[0]
        assert isinstance(node, ast.FunctionDef)
        return is_compiled(node) and touches_memory(ast.unparse(node))

    assert of("@triton.jit\ndef k(x):\n    tl.store(x, 1)")
    assert of("@triton.jit\ndef k(x):\n    return tl.program_id(0)")
    assert not of("@triton.jit\ndef f(a):\n    return a + 1")
    assert not of("@cached\ndef f(a):\n    return tl.program_id(0)")
    kernels = entry_kernels()
    assert {"running_total", "dense"} <= set(kernels)
    assert "exp2" not in kernels
    assert unreached(set(kernels)) == []
    assert unreached(set(kernels) - {"dense"}) == [f"{kernels['dense']}: dense"]


def test_a_brief_run_takes_gradients_of_an_eighth_of_the_operators_and_where_they_have_kernels() -> None:
    operators = {sample.operator for sample in all_samples()}
    taken = [{name for name in operators if takes_gradients(name, seed)} for seed in range(40)]
    assert all(set(WITH_KERNELS_OF_GRADIENTS) <= each for each in taken)
    assert set(WITH_KERNELS_OF_GRADIENTS) <= operators
    assert all(0.08 < len(each) / len(operators) < 0.18 for each in taken)
    assert len(set().union(*taken)) > 0.99 * len(operators), "other seeds take the others"


def test_a_brief_run_takes_operators_with_kernels_half_of_their_other_rows_and_an_eighth_of_those_composed() -> (
    None
):
    assert has_own_kernel("mm") and has_own_kernel("embedding_renorm"), "this one by its in-place form"
    assert not has_own_kernel("nanquantile.scalar")
    cases = {case for rank, case in all_cases() if rank == 0}
    own = {case for case in cases if has_own_kernel(case.operator)}
    first, composed = {case for case in own if case.row == 0}, cases - own
    assert len(first) > 350 and len(own - first) > 70 and len(composed) > 400
    taken = [{case for case in cases if takes_case(case, seed)} for seed in range(48)]
    assert all(first <= each for each in taken)
    rows = [{f"{case.operator}#{case.row}" for case in each} for each in taken]
    assert all(set(WITH_KERNELS_OF_ROWS) <= each for each in rows)
    assert all(0.08 < len(each & composed) / len(composed) < 0.18 for each in taken)
    assert all(0.3 < len(each & own - first) / len(own - first) < 0.7 for each in taken)
    assert len(set().union(*taken)) > 0.99 * len(cases), "other seeds take the others"


def test_a_brief_run_takes_half_of_the_dtypes_of_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    dtypes = ("bfloat16", "float16", "float32", "int8")
    assert some_of(dtypes) == list(dtypes)
    monkeypatch.setattr(first_checks, "_brief", [True])
    drawn = []
    for seed in range(24):
        monkeypatch.setattr(first_checks, "_seed", [seed])
        assert some_of(dtypes) == some_of(dtypes) and len(some_of(dtypes)) == 2
        assert "float16" in some_of(dtypes, "float16") and len(some_of(dtypes, "float16")) == 2
        drawn += [*some_of(dtypes), *some_of(dtypes, "float16")]
    assert set(drawn) == set(dtypes)
