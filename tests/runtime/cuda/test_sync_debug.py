"""Reports of where a program waits for a device."""

import warnings

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt

WAITS = {
    "item": lambda x: x.sum().item(),
    "cpu": lambda x: x.cpu(),
    "nonzero": lambda x: x.nonzero(),
    "bool": lambda x: bool(x[0]),
    "from host": lambda x: tt.ones(3).to("cuda"),
    "stream": lambda x: tt.cuda.current_stream().synchronize(),
    "one_hot": lambda x: tt.nn.functional.one_hot(x.long()),
    "repeat_interleave": lambda x: x.repeat_interleave(x.long()),
    "inv": lambda x: tt.linalg.inv(x.diag()),
    "cholesky": lambda x: tt.linalg.cholesky(x.diag()),
}
RUNS_ON = {
    "kernel": lambda x: x * 2 + 1,
    "device": lambda x: tt.cuda.synchronize(),
    "event": lambda x: tt.cuda.current_stream().record_event().synchronize(),
    "copy": lambda x: x.clone(),
    "pinned": lambda x: tt.ones(3).pin_memory().to("cuda", non_blocking=True),
    "subscript": lambda x: x[x.long()],
    "gather": lambda x: x.gather(0, x.long()),
    "index_add": lambda x: x.index_add(0, x.long(), x),
    "embedding": lambda x: tt.nn.functional.embedding(x.long(), x[:, None]),
    "cross_entropy": lambda x: tt.nn.functional.cross_entropy(x.expand(3, 3), x.long()),
    "multinomial": lambda x: tt.multinomial(x, 2),
    "bernoulli": lambda x: tt.bernoulli(x),
    "one_hot of a number of classes": lambda x: tt.nn.functional.one_hot(x.long(), 4),
    "repeat_interleave of a size": lambda x: x.repeat_interleave(x.long(), output_size=3),
    "cholesky_ex": lambda x: tt.linalg.cholesky_ex(x.diag()),
    "inv_ex": lambda x: tt.linalg.inv_ex(x.diag()),
    "solve_ex": lambda x: tt.linalg.solve_ex(x.diag(), x),
    "lu_factor_ex": lambda x: tt.linalg.lu_factor_ex(x.diag()),
    "ldl_factor_ex": lambda x: tt.linalg.ldl_factor_ex(x.diag()),
}


@pytest.fixture
def x():
    yield tt.ones(3, device="cuda")
    tt.cuda.set_sync_debug_mode(0)


@pytest.mark.parametrize("name", WAITS)
def test_what_waits_is_reported(x, name):
    assert tt.cuda.get_sync_debug_mode() == 0
    WAITS[name](x)
    tt.cuda.set_sync_debug_mode("error")
    assert tt.cuda.get_sync_debug_mode() == 2
    with pytest.raises(RuntimeError, match=r"^called a synchronizing CUDA operation$"):
        WAITS[name](x)
    tt.cuda.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
        WAITS[name](x)
    tt.cuda.set_sync_debug_mode("default")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        WAITS[name](x)


@pytest.mark.parametrize("name", RUNS_ON)
def test_what_does_not_wait_or_says_so_is_not(x, name):
    tt.cuda.set_sync_debug_mode(2)
    RUNS_ON[name](x)


@pytest.mark.parametrize("mode", ["always", 3, -1])
def test_other_modes_are_refused(x, mode):
    with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected one of"):
        tt.cuda.set_sync_debug_mode(mode)
    assert tt.cuda.get_sync_debug_mode() == 0
