"""`tt.backends.cuda`: plans of Fourier transforms, permissions of products, and which attention takes operands."""

import warnings

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt

flags = tt.backends.cuda


def parameters(dtype=tt.float16, width=8, mask=None, device="cuda", heads=2, gqa=False):
    q = tt.ones(1, 2, 3, width, dtype=dtype, device=device)
    k = tt.ones(1, heads, 3, width, dtype=dtype, device=device)
    return flags.SDPAParams(q, k, k, mask, 0.0, False, gqa)


@pytest.mark.parametrize(
    ("params", "efficient", "flash"),
    [
        ({}, True, True),
        ({"dtype": tt.float32}, True, False),
        ({"dtype": tt.float64}, False, False),
        ({"width": 2048}, False, False),
        ({"device": "cpu"}, False, False),
        ({"heads": 1}, False, False),
        ({"heads": 1, "gqa": True}, True, True),
    ],
)
def test_which_attention_takes_operands(params, efficient, flash):
    found = parameters(**params)
    assert flags.can_use_efficient_attention(found) is efficient
    assert flags.can_use_flash_attention(found) is flash
    assert flags.can_use_cudnn_attention(found) is False


def test_a_mask_is_not_for_flash_attention():
    mask = tt.ones(3, 3, dtype=tt.bool, device="cuda")
    assert flags.can_use_efficient_attention(parameters(mask=mask))
    assert not flags.can_use_flash_attention(parameters(mask=mask))


def test_what_stands_against_it_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert flags.can_use_flash_attention(parameters(), debug=True)
    with pytest.warns(UserWarning, match="Flash attention does not take these operands"):
        flags.can_use_flash_attention(parameters(tt.float32), debug=True)
    flags.enable_flash_sdp(False)
    try:
        with pytest.warns(UserWarning, match="Flash attention has been runtime disabled"):
            assert not flags.can_use_flash_attention(parameters(), debug=True)
    finally:
        flags.enable_flash_sdp(True)


def test_the_former_context_of_attention_restores_what_was_permitted():
    with (
        pytest.warns(FutureWarning, match="sdpa_kernel"),
        flags.sdp_kernel(enable_flash=False, enable_mem_efficient=False),
    ):
        assert not flags.flash_sdp_enabled() and not flags.mem_efficient_sdp_enabled()
        assert flags.math_sdp_enabled()
    assert flags.flash_sdp_enabled() and flags.mem_efficient_sdp_enabled()


def test_attention_by_operators_may_stay_narrow():
    """A product of 300 * 300 overflows float16 where the scores are kept in it."""
    q = tt.full((1, 1, 2, 4), 300.0, dtype=tt.float16)
    v = tt.ones(1, 1, 2, 4, dtype=tt.float16)
    wide = tt._scaled_dot_product_attention_math(q, q, v)[0]
    assert wide.isfinite().all()
    assert not flags.fp16_bf16_reduction_math_sdp_allowed()
    flags.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        assert flags.fp16_bf16_reduction_math_sdp_allowed()
        narrow = tt._scaled_dot_product_attention_math(q, q, v)[0]
    finally:
        flags.allow_fp16_bf16_reduction_math_sdp(False)
    assert not narrow.isfinite().any()


def test_plans_of_transforms_are_counted_and_limited():
    try:
        tt.fft.fft(tt.ones(4, device="cuda"))
    except RuntimeError as error:
        if "need cuFFT" not in str(error):
            raise
        pytest.skip("cuFFT is not installed")
    cache = flags.cufft_plan_cache
    before = cache.max_size
    try:
        cache.max_size = 3
        assert cache[0].max_size == cache["cuda:0"].max_size == cache.max_size == 3
        tt.fft.fft(tt.ones(4, device="cuda"))
        assert 0 <= cache.size <= 3
        cache.clear()
        assert cache.size == 0
        with pytest.raises(RuntimeError, match="must not be negative, got -1"):
            cache.max_size = -1
        with pytest.raises(AttributeError):
            cache.size = 2
    finally:
        cache.max_size = before


def test_plans_of_a_device_that_does_not_exist():
    with pytest.raises(RuntimeError, match="cufft_plan_cache: Invalid device id: got 9"):
        flags.cufft_plan_cache[9]


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("allow_fp16_reduced_precision_reduction", True),
        ("allow_bf16_reduced_precision_reduction", True),
        ("allow_fp16_accumulation", False),
    ],
)
def test_permissions_of_products_are_kept(name, default):
    assert getattr(flags.matmul, name) is default
    setattr(flags.matmul, name, not default)
    try:
        assert getattr(flags.matmul, name) is not default
        with pytest.raises(TypeError, match=f"{name} expects a bool, but got int"):
            setattr(flags.matmul, name, 3)
    finally:
        setattr(flags.matmul, name, default)


def test_what_is_there():
    assert flags.is_built() and flags.is_flash_attention_available() and not flags.is_ck_sdpa_available()
