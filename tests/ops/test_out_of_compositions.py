"""``out=`` of operators made of others: the dtypes that are cast, the results that go to several tensors, refusals."""

import pytest

import triten as tt

F = tt.nn.functional
EXACT = "Expected out tensor to have dtype"
SHARES = "some elements of the input tensor and the written-to tensor refer to a single memory"


def _far(tensor, device):
    """Return an output on another device than `tensor`'s."""
    return tt.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def test_linear_writes_its_output(device):
    x, w, b = tt.arange(6.0).view(2, 3).to(device), tt.ones(4, 3, device=device), tt.ones(4, device=device)
    for rows in (x, x.view(1, 2, 3)):
        out = tt.empty(*rows.shape[:-1], 4, device=device)
        assert F.linear(rows, w, b, out=out) is out
        assert out.view(-1).tolist() == [4.0] * 4 + [13.0] * 4
    with pytest.raises(RuntimeError, match=EXACT):
        F.linear(x, w, out=tt.empty(2, 4, dtype=tt.float64, device=device))
    with pytest.raises(RuntimeError, match=r"linear\(\): functions with out=\.\.\. arguments"):
        F.linear(x.clone().requires_grad_(), w, out=tt.empty(2, 4, device=device))
    memory = tt.zeros(13, device=device)
    for call in (
        lambda x, out: F.linear(x, tt.ones(3, 3, device=device), out=out),
        lambda x, out: tt.matmul(x, tt.ones(2, 3, 3, device=device), out=out),
    ):
        with pytest.raises(RuntimeError, match=SHARES):
            call(memory[:-1].view(2, 2, 3), memory[1:].view(2, 2, 3))
    with pytest.raises(RuntimeError, match=r"on the same device|to have device"):
        F.linear(x, w, out=_far(tt.empty(2, 4), device))


SEVERAL = {
    "unbind_copy": (lambda x, **out: tt.unbind_copy(x, **out), [(2,), (2,), (2,)]),
    "split_copy": (lambda x, **out: tt.split_copy(x, 2, **out), [(2, 2), (1, 2)]),
    "split_with_sizes_copy": (
        lambda x, **out: tt.split_with_sizes_copy(x, [1, 2], **out),
        [(1, 2), (2, 2)],
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_copies_of_several_views_go_to_as_many_outputs(name, device):
    call, sizes = SEVERAL[name]
    x = tt.arange(6.0).view(3, 2).to(device)
    outs = [tt.empty(size, device=device) for size in sizes]
    assert call(x, out=outs) is None
    assert [out.tolist() for out in outs] == [part.tolist() for part in call(x)]
    with pytest.raises(RuntimeError, match=f"expected an out= argument of size {len(sizes)}, got size 1"):
        call(x, out=outs[:1])
    kept = [out.tolist() for out in outs]
    with pytest.raises(RuntimeError, match=EXACT):
        call(x + 1, out=[*outs[:-1], outs[-1].double()])
    one = tt.zeros(1, device=device).expand(sizes[-1])
    with pytest.raises(RuntimeError, match="more than one element"):
        call(x + 1, out=[*outs[:-1], one])
    assert [out.tolist() for out in outs] == kept
    empty = [tt.empty(0, device=device) for _ in sizes]
    if name == "split_copy":
        with pytest.raises(RuntimeError, match="size"):
            call(x, out=empty)
    else:
        call(x, out=empty)
        assert [out.shape for out in empty] == sizes


def test_what_a_last_step_computes_is_cast_and_an_operand_is_not(device):
    x = tt.tensor([1.0, 4.0, 9.0], device=device)
    wide = tt.empty(0, dtype=tt.float64, device=device)
    assert tt.diff(x, out=wide).tolist() == [3.0, 5.0]
    assert tt.inner(x, tt.tensor(2.0, device=device), out=wide.resize_(3)).tolist() == [2.0, 8.0, 18.0]
    for call in (lambda: tt.diff(x, 0, out=wide), lambda: tt.inner(x, x, out=wide.resize_(()))):
        with pytest.raises(RuntimeError, match=EXACT):
            call()


def test_the_inverse_transform_of_real_numbers_is_not_cast():
    wide = tt.empty(4, dtype=tt.complex128)
    for function in (tt.fft.ifft, tt.fft.ihfft):
        with pytest.raises(RuntimeError, match=EXACT):
            function(tt.ones(4), out=wide)
    assert tt.fft.fft(tt.ones(4), out=wide).tolist() == [4, 0, 0, 0]
    assert tt.fft.ifft(tt.ones(4, dtype=tt.complex64), out=wide).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("function", [tt.nansum, tt.nanmean], ids=["nansum", "nanmean"])
def test_sums_without_nan_are_computed_in_the_outputs_dtype(function, device):
    x = tt.tensor([1.0, float("nan"), 2.0**-24], device=device)
    out = function(x, out=tt.empty((), dtype=tt.float64, device=device))
    assert out.item() == (1 + 2.0**-24) / (1 if function is tt.nansum else 2)
    for dtype in (tt.int32, tt.bool, tt.complex64):
        with pytest.raises(NotImplementedError, match='"nansum_cpu" not implemented for \''):
            function(x, out=tt.empty((), dtype=dtype, device=device))
    with pytest.raises(RuntimeError, match="provided dtype must match dtype of result"):
        function(x, dtype=tt.float32, out=out)


def test_batch_normalisation_into_outputs(device):
    x = tt.randn(4, 3, device=device)
    stats = tt.zeros(3, device=device), tt.ones(3, device=device)
    sizes = [(4, 3), (3,), (3,)]
    for call in (
        lambda x, **out: tt.native_batch_norm(x, None, None, *stats, True, 0.0, 1e-5, **out),
        lambda x, **out: tt._native_batch_norm_legit(x, None, None, *stats, True, 0.0, 1e-5, **out),
        lambda x, **out: tt._native_batch_norm_legit(x, None, None, True, 0.0, 1e-5, **out),
    ):
        outs = [tt.empty(size, device=device) for size in sizes]
        given = call(x, out=tuple(outs))
        assert all(one is two for one, two in zip(given, outs, strict=True))
        assert [o.tolist() for o in outs] == [o.tolist() for o in call(x)]
        with pytest.raises(RuntimeError, match=r"functions with out=\.\.\. arguments don't support"):
            call(x.clone().requires_grad_(), out=tuple(outs))


def test_an_output_that_overlaps_once_it_is_resized_is_refused(device):
    memory = tt.tensor([0, 1, 0], device=device)
    source = tt.tensor([5, 6, 7], device=device)
    out = memory[:1]
    with pytest.warns(UserWarning, match="resized"), pytest.raises(RuntimeError, match=SHARES):
        tt.gather(source, 0, memory[1:], out=out)
    assert memory.tolist() == [0, 1, 0]
    assert out.shape == (1,)


def test_random_results_go_to_their_own_device(device):
    p = tt.full((3,), 0.5, device=device)
    with pytest.raises(RuntimeError, match=r"on the same device|to have device"):
        tt.bernoulli(p, out=_far(p, device))
    with pytest.raises(RuntimeError, match=r"on the same device|to have device"):
        tt.multinomial(p, 2, out=tt.empty(2, dtype=tt.int64, device="meta"))
    with pytest.raises(RuntimeError, match=r"bernoulli\(\): functions with out="):
        tt.bernoulli(p.clone().requires_grad_(), out=tt.empty(3, device=device))
    whole = tt.bernoulli(tt.ones(3, device=device), out=tt.empty(3, dtype=tt.int32, device=device))
    assert whole.tolist() == [1, 1, 1]


def test_nonzero_takes_an_output_unless_it_gives_a_tuple(device):
    x, out = tt.tensor([0, 3, 0, 4], device=device), tt.empty(0, 1, dtype=tt.int64, device=device)
    assert tt.nonzero(x, as_tuple=False, out=out) is out and out.tolist() == [[1], [3]]
    with pytest.raises(RuntimeError, match="nonzero does not support the out kwarg when as_tuple is True"):
        tt.nonzero(x, as_tuple=True, out=out)


def test_one_value_may_go_to_elements_that_share_memory(device):
    memory = tt.ones(3, 1, device=device)
    rows = memory.expand(3, 4)
    assert rows.zero_() is rows and memory.tolist() == [[0.0]] * 3
    assert rows.fill_(2.0).tolist() == [[2.0] * 4] * 3
    assert rows.fill_(tt.tensor(5.0, device=device)) is rows and memory.tolist() == [[5.0]] * 3
    with pytest.raises(RuntimeError, match="more than one element"):
        rows.add_(1)


@pytest.mark.parametrize("rank", [1, 3])
def test_channels_dropped_in_place_refuse_a_leaf_without_a_batch(rank, device):
    leaf = tt.ones((2, 3, 3, 3)[: rank + 1], device=device, requires_grad=True)
    call = F.dropout1d if rank == 1 else F.dropout3d
    for p in (0.0, 0.5):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            call(leaf, p, True, True)
        assert leaf.shape == (2, 3, 3, 3)[: rank + 1]
    batch = leaf.detach().clone()
    assert call(batch, 1.0, True, True) is batch and not batch.any() and batch.dim() == rank + 1
