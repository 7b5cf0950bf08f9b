"""A feature that an architecture lacks raises an error before compilation."""

import pytest

from triten.runtime.cuda.triton.architecture import check_architecture
from triten.runtime.cuda.triton.lazy_triton import tl


@pytest.mark.parametrize("type_", ["*fp8e4nv", "fp8e4nv", "*kfp8e4nv"])
def test_float8_e4m3fn_needs_sm_89(type_):
    check_architecture("dense", {"x": type_}, (), 89)
    with pytest.raises(NotImplementedError) as refused:
        check_architecture("dense", {"out": "*fp32", "x": type_}, (), 86)
    assert str(refused.value) == (
        "kernel 'dense' is not implemented for 'float8_e4m3fn' on sm_86: it needs sm_89 or later; sm_86 has "
        "float8_e5m2, float16, bfloat16, float32, float64"
    )


def test_a_tensor_descriptor_needs_sm_90():
    signature = {"out": "*fp32", "x": "tensordesc<fp32[8, 8]>"}
    check_architecture("dense", signature, (), 90)
    with pytest.raises(NotImplementedError, match=r"kernel 'dense' .* sm_89: argument 'x' .* needs sm_90"):
        check_architecture("dense", signature, (), 89)


def test_types_that_a_kernel_computes_in_count():
    import triton.language

    for type_ in (tl.float8e4nv, triton.language.float8e4nv):
        check_architecture("dense", {"x": "*fp32"}, (1, None, "fp8e4nv", type_), 90)
        with pytest.raises(NotImplementedError, match=r"kernel 'dense' .* 'float8_e4m3fn' on sm_80"):
            check_architecture("dense", {"x": "*fp32"}, (1, None, type_), 80)


@pytest.mark.parametrize("capability", [80, 90, 100, 120])
def test_every_other_dtype_is_everywhere(capability):
    types = ("*i1", "*i8", "*u64", "*fp16", "*bf16", "*fp32", "*fp64", "*fp8e5", "i64", "bf16")
    check_architecture("dense", dict(zip("abcdefghij", types, strict=True)), (tl.bfloat16,), capability)


@pytest.mark.parametrize("capability", [61, 75])
def test_older_architectures_are_refused(capability):
    with pytest.raises(
        NotImplementedError, match=rf"kernel 'dense' .* sm_{capability}: Triton supports sm_80"
    ):
        check_architecture("dense", {"x": "*fp32"}, (), capability)
