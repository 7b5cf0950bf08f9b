"""Jagged tensors do with each sequence what plain tensors do; numbers are PyTorch's."""

import copy
import pickle

import numpy as np
import pytest

import triten as tt

F = tt.nn.functional
LENGTHS = (2, 3, 1)


def wave(*sizes, k=1.0, device="cpu"):
    """Elements that differ in sign and size, the same in every run."""
    count = int(np.prod(sizes))
    return tt.from_numpy(np.sin(np.arange(count, dtype=np.float32) * k * 0.7 + 0.3).reshape(sizes)).to(device)


def sequences(device="cpu"):
    return [wave(n, 4, k=n + 1.0, device=device) for n in LENGTHS]


def jagged(device="cpu", requires_grad=False):
    return tt.nested.nested_tensor(sequences(device), layout=tt.jagged, requires_grad=requires_grad)


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(
        found.detach().cpu().numpy(), np.asarray(expected, np.float32), rtol=tolerance, atol=tolerance
    )


SEQUENCE_BY_SEQUENCE = {
    "exp": (lambda x: x.exp(), lambda s: s.exp()),
    "gelu": (F.gelu, F.gelu),
    "relu": (F.relu, F.relu),
    "softsign": (F.softsign, F.softsign),
    "where": (lambda x: tt.where(x > 0, x, x * -2), lambda s: tt.where(s > 0, s, s * -2)),
    "reflected": (lambda x: 2 - x, lambda s: 2 - s),
    "power": (lambda x: 2.0**x, lambda s: 2.0**s),
    "clamp": (lambda x: x.clamp(min=-0.2, max=0.5), lambda s: s.clamp(min=-0.2, max=0.5)),
    "masked_fill": (lambda x: x.masked_fill(x > 0.5, 0.0), lambda s: s.masked_fill(s > 0.5, 0.0)),
    "dense row": (lambda x: x * wave(4, device=x.device), lambda s: s * wave(4, device=s.device)),
    "softmax ragged": (lambda x: x.softmax(1), lambda s: s.softmax(0)),
    "log_softmax ragged": (lambda x: F.log_softmax(x, 1), lambda s: F.log_softmax(s, 0)),
    "softmin ragged": (lambda x: F.softmin(x, 1), lambda s: F.softmin(s, 0)),
    "softmax dense": (lambda x: tt.softmax(x, dim=-1), lambda s: tt.softmax(s, dim=-1)),
    "cumsum ragged": (lambda x: x.cumsum(1), lambda s: s.cumsum(0)),
    "cumprod dense": (lambda x: x.cumprod(2), lambda s: s.cumprod(1)),
    "sum dense": (lambda x: x.sum(-1), lambda s: s.sum(-1)),
    "mean dense, kept": (lambda x: x.mean(2, keepdim=True), lambda s: s.mean(1, keepdim=True)),
    "max dense": (lambda x: x.max(2).values, lambda s: s.max(1).values),
    "var": (lambda x: x.var(2), lambda s: s.var(1)),
    "std": (lambda x: tt.std(x, -1, correction=0), lambda s: tt.std(s, -1, correction=0)),
    "norm": (lambda x: tt.linalg.vector_norm(x, dim=-1), lambda s: tt.linalg.vector_norm(s, dim=-1)),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), lambda s: F.layer_norm(s, (4,))),
    "rms_norm": (lambda x: F.rms_norm(x, (4,)), lambda s: F.rms_norm(s, (4,))),
    "normalize": (lambda x: F.normalize(x, dim=-1), lambda s: F.normalize(s, dim=-1)),
    "matmul": (lambda x: x @ wave(4, 3, device=x.device), lambda s: s @ wave(4, 3, device=s.device)),
    "unflatten": (lambda x: x.unflatten(-1, [2, 2]), lambda s: s.unflatten(-1, [2, 2])),
    "view": (lambda x: x.view(x.size(0), x.size(1), 2, 2), lambda s: s.view(-1, 2, 2)),
    "view of a shape": (lambda x: x.reshape(*x.shape[:-1], 2, 2), lambda s: s.reshape(-1, 2, 2)),
    "flatten": (lambda x: x.unflatten(2, (2, 2)).flatten(2), lambda s: s),
    "transpose": (lambda x: x.transpose(1, 2).exp(), lambda s: s.t().exp()),
    "permute": (
        lambda x: x.unflatten(2, (2, 2)).permute(0, 3, 1, 2),
        lambda s: s.unflatten(1, (2, 2)).permute(2, 0, 1),
    ),
    "softmax of a transposed one": (lambda x: x.mT.softmax(-1), lambda s: s.t().softmax(-1)),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda s: s.unsqueeze(0)),
    "squeeze": (lambda x: x.unsqueeze(-1).squeeze(-1), lambda s: s),
    "select": (lambda x: x.select(2, 1), lambda s: s.select(1, 1)),
    "subscript": (lambda x: x[..., 1:3], lambda s: s[..., 1:3]),
    "cat": (lambda x: tt.cat([x, x * 2], dim=2), lambda s: tt.cat([s, s * 2], dim=1)),
    "stack": (lambda x: tt.stack([x, x * 2], dim=-1), lambda s: tt.stack([s, s * 2], dim=-1)),
    "chunk": (lambda x: x.chunk(2, -1)[1], lambda s: s.chunk(2, -1)[1]),
    "split": (lambda x: x.split([1, 3], -1)[1], lambda s: s.split([1, 3], -1)[1]),
    "clone": (lambda x: x.clone(), lambda s: s.clone()),
    "double": (lambda x: x.double(), lambda s: s.double()),
}

FOR_EACH_SEQUENCE = {
    "sum": (lambda x: x.sum(1), lambda s: s.sum(0)),
    "sum, kept": (lambda x: x.sum(dim=1, keepdim=True), lambda s: s.sum(0, keepdim=True)),
    "mean": (lambda x: x.mean(1), lambda s: s.mean(0)),
    "amax": (lambda x: x.amax(1), lambda s: s.amax(0)),
    "amin": (lambda x: x.amin(1), lambda s: s.amin(0)),
    "prod": (lambda x: x.prod(1), lambda s: s.prod(0)),
    "logsumexp": (lambda x: x.logsumexp(1), lambda s: s.logsumexp(0)),
    "max": (lambda x: x.max(1).values, lambda s: s.max(0).values),
    "a product along sequences": (lambda x: x.transpose(1, 2) @ x, lambda s: s.t() @ s),
    "sum of a transposed one": (lambda x: x.mT.sum(2), lambda s: s.sum(0)),
}


@pytest.mark.parametrize("name", SEQUENCE_BY_SEQUENCE)
def test_a_call_does_with_each_sequence_what_it_does_with_a_tensor(name, device):
    nested_call, call = SEQUENCE_BY_SEQUENCE[name]
    x = jagged(device, requires_grad=True)
    y = nested_call(x)
    assert y.is_nested and y.layout is tt.jagged and y.size(0) == 3
    leaves = [s.clone().requires_grad_() for s in sequences(device)]
    expected = [call(s) for s in leaves]
    for found, wanted in zip(y.unbind(), expected, strict=True):
        assert found.shape == wanted.shape and found.dtype is wanted.dtype
        close(found, wanted.detach().cpu().numpy())
    sum((each * wave(*each.shape, k=3.0, device=device)).sum() for each in y.unbind()).backward()
    sum((each * wave(*each.shape, k=3.0, device=device)).sum() for each in expected).backward()
    for found, leaf in zip(x.grad.unbind(), leaves, strict=True):
        close(found, leaf.grad.cpu().numpy())


@pytest.mark.parametrize("name", FOR_EACH_SEQUENCE)
def test_what_reduces_sequences_gives_a_dense_tensor(name, device):
    nested_call, call = FOR_EACH_SEQUENCE[name]
    x = jagged(device, requires_grad=True)
    y = nested_call(x)
    leaves = [s.clone().requires_grad_() for s in sequences(device)]
    expected = tt.stack([call(s) for s in leaves])
    assert not y.is_nested and y.shape == expected.shape
    close(y, expected.detach().cpu().numpy())
    weights = wave(*y.shape, k=3.0, device=device)
    (y * weights).sum().backward()
    (expected * weights).sum().backward()
    for found, leaf in zip(x.grad.unbind(), leaves, strict=True):
        close(found, leaf.grad.cpu().numpy())


class Block(tt.nn.Module):
    """A transformer's layer as programs write it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = tt.nn.Linear(width, 3 * width)
        self.out = tt.nn.Linear(width, width)
        self.norm = tt.nn.LayerNorm(width)
        linear = tt.nn.Linear
        self.mlp = tt.nn.Sequential(
            linear(width, 2 * width), tt.nn.GELU(), tt.nn.Dropout(0.0), linear(2 * width, width)
        )

    def forward(self, x):
        query, key, value = (
            each.unflatten(-1, [self.heads, -1]).transpose(1, 2)
            for each in self.qkv(self.norm(x)).chunk(3, -1)
        )
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(-2)
        x = x + self.out(attended)
        return x + self.mlp(self.norm(x))


def test_a_transformer_layer_runs_on_jagged_tensors(device):
    block = Block(4, 2).to(device)
    with tt.no_grad():
        for i, parameter in enumerate(block.parameters()):
            parameter.copy_(wave(*parameter.shape, k=i + 1.0, device=device))
    x = jagged(device, requires_grad=True)
    y = block(x)
    close(
        y.values(),
        [
            [2.1508, 2.0270, 5.2664, 4.2517],
            [1.3049, 3.8632, 9.1104, 4.4996],
            [0.4266, 6.8946, 7.9536, 4.4103],
            [-0.8463, 7.4946, 6.4183, 4.2483],
            [0.4532, 7.2335, 6.8722, 4.3938],
            [3.2907, 4.1682, 2.6751, 4.4398],
        ],
        2e-4,
    )
    (y * y).sum(1).pow(2).mean().backward()
    close(
        x.grad.values(),
        [
            [-103.4378, 643.8322, 559.0816, -833.3767],
            [-11.2744, 358.5576, -640.9315, 714.6632],
            [-371.7475, 541.6504, 537.2118, 137.2750],
            [603.6663, 273.2304, 30.0547, -112.5154],
            [-162.0671, 262.1280, 198.6523, 508.3229],
            [-27.8102, 222.2282, -202.4221, 79.5744],
        ],
        5e-4,
    )
    close(block.qkv.weight.grad[0], [-15.868, 35.839, -35.311, 3.931], 1e-3)
    close(block.norm.weight.grad, [3879.199, -2803.122, 4772.123, -4710.646], 1e-3)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_queries_to_other_sequences(is_causal, device):
    keys = [wave(n, 2, 4, k=n + 0.5, device=device) for n in (1, 4, 2)]
    queries = [wave(n, 2, 4, k=n + 2.5, device=device) for n in LENGTHS]
    key, query = (tt.nested.nested_tensor(each, layout=tt.jagged).transpose(1, 2) for each in (keys, queries))
    found = F.scaled_dot_product_attention(query, key, key * 2, is_causal=is_causal)
    for each, q, k in zip(found.unbind(), queries, keys, strict=True):
        q, k = q.transpose(0, 1), k.transpose(0, 1)
        expected = F.scaled_dot_product_attention(q[None], k[None], k[None] * 2, is_causal=is_causal)[0]
        close(each, expected.cpu().numpy())


def test_shape_and_size_have_a_ragged_size_that_is_no_number():
    x = jagged()
    ragged = x.size(1)
    assert (x.dim(), x.size(0), x.size(-1), x.numel()) == (3, 3, 4, 24)
    assert x.shape == (3, ragged, 4) and x.clone().shape == x.shape and x.exp().size(1) == ragged
    assert jagged().shape != x.shape and ragged != 3 and ragged >= 0
    assert str(x.shape) == f"triten.Size([3, {ragged}, 4])" and str(ragged).startswith("j")
    assert str(x.stride()) == f"(4*{ragged}, 4, 1)"
    assert len({ragged, x.shape[1]}) == 1
    with pytest.raises(TypeError, match="RaggedSize"):
        tt.zeros(ragged)
    with pytest.raises(TypeError, match="stands for the lengths"):
        range(ragged)
    with pytest.raises(ValueError, match="indeterminate"):
        bool(ragged < 5)


def test_what_a_jagged_tensor_says_of_itself():
    x = jagged(requires_grad=True)
    assert isinstance(x, tt.Tensor) and x.is_nested and x.is_leaf and x.requires_grad and x.grad is None
    assert x.dtype is tt.float32 and x.device == tt.device("cpu") and x.layout is tt.jagged
    assert x.lengths() is None and x.offsets().tolist() == [0, 2, 5, 6] and len(x) == 3
    ragged = x.size(1)
    text = f"NestedTensor(size=(3, {ragged}, 4), offsets=tensor([0, 2, 5, 6])"
    assert repr(x) == f"{text}, requires_grad=True, contiguous=True)"
    assert repr(x * 2) == f"{text}, grad_fn=<MulBackward0>, contiguous=True)"
    assert [each.shape for each in x] == [(2, 4), (3, 4), (1, 4)]
    assert not x.detach().requires_grad and x.values().shape == (6, 4) and x.values().requires_grad


def test_dense_tensors_broadcast_over_batch_and_sequences(device):
    x = jagged(device)
    for dense in (
        wave(3, 1, 4, device=device),
        wave(1, 1, 4, device=device),
        wave(3, 3, 4, device=device),
        wave(1, 3, 1, device=device),
    ):
        whole = dense.expand(3, 3, 4)
        for i, (left, right) in enumerate(zip((x - dense).unbind(), (dense - x).unbind(), strict=True)):
            n = LENGTHS[i]
            close(left, (sequences(device)[i] - whole[i, :n]).cpu().numpy())
            close(right, (whole[i, :n] - sequences(device)[i]).cpu().numpy())
    (y,) = tt.autograd.grad((x * (w := tt.ones(3, 1, 4, device=device, requires_grad=True))).sum(), w)
    close(y, x.sum(1, keepdim=True).cpu().numpy())


def test_a_batch_of_matrices_multiplies_each_sequence(device):
    x, w = jagged(device), wave(3, 4, 2, device=device)
    for found, sequence, each in zip((x @ w).unbind(), sequences(device), w, strict=True):
        close(found, (sequence @ each).cpu().numpy())


def test_reductions_over_everything_and_over_the_batch(device):
    x = jagged(device)
    whole = tt.cat(sequences(device))
    close(x.sum(), whole.sum().cpu().numpy())
    close(x.mean(), whole.mean().cpu().numpy())
    close(x.sum((0, 1)), [0.0235, 2.0739, -1.9921, 1.2040], 1e-3)
    assert x.sum((0, 1), keepdim=True).shape == (1, 1, 4) and x.max().item() == whole.max().item()
    assert x.argmax(1).tolist() == [[1, 0, 1, 1], [0, 1, 2, 1], [0, 0, 0, 0]]
    assert (x > 5).any(1).tolist() == [[False] * 4] * 3 and (x < 5).all().item()
    integers = x.to(tt.int64)
    assert integers.sum(1).dtype is tt.int64 and integers.amax(1).tolist() == [[0] * 4] * 3


def test_padding_and_its_derivative(device):
    x = tt.nested.nested_tensor(
        [tt.arange(2.0, device=device), tt.arange(3.0, device=device)], layout=tt.jagged, requires_grad=True
    )
    assert x.to_padded_tensor(-1).tolist() == [[0, 1, -1], [0, 1, 2]]
    padded = tt.nested.to_padded_tensor(x, 7.0, (2, 4))
    assert padded.tolist() == [[0, 1, 7, 7], [0, 1, 2, 7]]
    (padded * tt.arange(8.0, device=device).view(2, 4)).sum().backward()
    assert x.grad.values().tolist() == [0, 1, 4, 5, 6] and x.grad.shape == x.shape
    with pytest.raises(RuntimeError, match=r"less than NestedTensor padded size.*got \(2, 2\)"):
        tt.nested.to_padded_tensor(x, 0.0, (2, 2))
    with pytest.raises(TypeError, match="expected a nested tensor, got Tensor"):
        tt.nested.to_padded_tensor(tt.ones(2), 0.0)


def test_lists_and_dense_tensors_in_their_graph(device):
    a, b = (tt.ones(n, device=device, requires_grad=True) for n in (2, 3))
    x = tt.nested.as_nested_tensor([a, b], layout=tt.jagged, dtype=tt.float64)
    assert not x.is_leaf and x.dtype is tt.float64
    x.backward(
        tt.nested.nested_tensor_from_jagged(tt.arange(5.0, dtype=tt.float64, device=device), x.offsets())
    )
    assert (a.grad.tolist(), b.grad.tolist()) == ([0, 1], [2, 3, 4])
    dense = wave(2, 3, 4, device=device).requires_grad_()
    y = tt.nested.as_nested_tensor(dense, layout=tt.jagged)
    assert (
        y.offsets().tolist() == [0, 3, 6] and tt.nested.as_nested_tensor(y, layout=tt.jagged).shape == y.shape
    )
    y.sum().backward()
    assert dense.grad.sum().item() == 24


def test_the_ragged_dimension_is_the_one_that_differs():
    x = tt.nested.nested_tensor([tt.ones(2, 3), tt.ones(2, 5)], layout=tt.jagged)
    assert x.size(1) == 2 and x.offsets().tolist() == [0, 3, 8]
    assert x.to_padded_tensor(0.0).shape == (2, 2, 5) and x.sum(-1).tolist() == [[3, 3], [5, 5]]


def test_values_with_holes_between_sequences(device):
    base = tt.arange(20.0, device=device).view(2, 5, 2)
    starts, lengths = tt.tensor([1, 0], device=device), tt.tensor([2, 3], device=device)
    x = tt.nested.narrow(base, 1, starts, lengths, layout=tt.jagged)
    assert x.offsets().tolist() == [1, 5, 8] and x.lengths().tolist() == [2, 3] and not x.is_contiguous()
    assert [each.tolist() for each in x.unbind()] == [base[0, 1:3].tolist(), base[1, :3].tolist()]
    base[0, 1, 0] = 100.0
    assert x[0].tolist()[0] == [100.0, 3.0]  # a view
    packed = x.contiguous()
    assert packed.offsets().tolist() == [0, 2, 5] and packed.is_contiguous() and x.numel() == 10
    assert x.sum(1).tolist() == [[104, 8], [36, 39]] == packed.sum(1).tolist()
    assert x.to_padded_tensor(0.0).shape == (2, 3, 2) and (x + 1).sum().item() == packed.sum().item() + 10
    assert (x + tt.ones(2, 1, 2, device=device)).values().tolist() == (packed + 1).values().tolist()


def test_tensors_over_the_same_offsets_fit_and_others_do_not():
    offsets = tt.tensor([0, 2, 6])
    a, b = (
        tt.nested.nested_tensor_from_jagged(wave(6, 3, k=k), offsets, min_seqlen=2, max_seqlen=4)
        for k in (1.0, 2.0)
    )
    close((a + b).values(), (wave(6, 3) + wave(6, 3, k=2.0)).numpy())
    other = tt.nested.nested_tensor_from_jagged(wave(6, 3), lengths=tt.tensor([2, 4]))
    assert other.offsets().tolist() == [0, 2, 6]
    with pytest.raises(RuntimeError, match=r"function add with inputs of shapes \(2, j\d+, 3\) and \(2, j"):
        a + other
    with pytest.raises(RuntimeError, match="binary pointwise function mul"):
        a * tt.ones(2, 3, 3)


def test_in_place_calls_write_the_values():
    values = tt.zeros(6, 2)
    x = tt.nested.nested_tensor_from_jagged(values, tt.tensor([0, 2, 6]))
    same = x
    x += 1
    assert same is x and x.mul_(3) is x and values.tolist() == [[3.0, 3.0]] * 6
    x[0].zero_()
    assert values.sum().item() == 24
    x.requires_grad_()
    assert not values.requires_grad


def test_gradients_come_nested():
    x = jagged(requires_grad=True)
    (found,) = tt.autograd.grad((x * x).sum(), x)
    close(found.values(), (x.detach() * 2).values().numpy())
    assert found.shape == x.shape
    seen = []
    x.register_hook(lambda grad: seen.append(grad.is_nested))
    y = x * 2
    y.retain_grad()
    y.backward(tt.ones_like(y))
    assert seen == [True] and y.grad.values().tolist() == [[1.0] * 4] * 6
    x.grad = None
    assert x.grad is None


def test_embedding_and_losses(device):
    indices = tt.nested.nested_tensor(
        [tt.tensor([0, 2], device=device), tt.tensor([1, 1, 0], device=device)], layout=tt.jagged
    )
    table = tt.nn.Embedding(3, 4).to(device)
    x = table(indices)
    assert x.shape == (2, indices.size(1), 4)
    loss = F.mse_loss(x, tt.zeros_like(x))
    close(loss, (x.values() ** 2).mean().detach().cpu().numpy())
    loss.backward()
    assert table.weight.grad.shape == (3, 4) and table.weight.grad.abs().sum().item() > 0


def test_masked_select_makes_a_sequence_for_each_row(device):
    x = tt.arange(9.0, device=device).view(3, 3)
    mask = tt.tensor([[False, False, True], [True, False, True], [False, False, True]], device=device)
    y = tt.nested.masked_select(x, mask)
    assert y.values().tolist() == [2, 3, 5, 8] and y.offsets().tolist() == [0, 1, 3, 4]
    again = tt.masked_select(y, y > 3)
    assert again.values().tolist() == [5, 8] and again.offsets().tolist() == [0, 0, 1, 2]


def test_the_batch_in_parts_and_by_subscripts():
    x = jagged()
    first, second = x.chunk(2, 0)
    assert first.offsets().tolist() == [0, 2, 5] and second.offsets().tolist() == [0, 1]
    assert x[1].shape == (3, 4) and x[-1].shape == (1, 4) and x[1, 0].shape == (4,)
    with pytest.raises(IndexError, match="index 3 out of range for a batch of 3"):
        x[3]


def test_copies_files_and_devices():
    x = jagged(requires_grad=True)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x.detach())), x.detach().to("cuda").cpu()):
        assert other.values().tolist() == x.values().tolist() and other.offsets().tolist() == [0, 2, 5, 6]
    assert copy.deepcopy(x).requires_grad
    there = x.to("cuda")
    assert there.offsets().device.type == "cuda" and there.shape == x.shape
    assert (there.cpu() + x).values().tolist() == (x * 2).values().tolist()


def test_under_autocast_products_are_of_the_narrow_type():
    x = jagged()
    with tt.autocast("cpu", dtype=tt.bfloat16):
        assert tt.nn.Linear(4, 2)(x).dtype is tt.bfloat16


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.sum(0), RuntimeError, r"sum\(\): reducing along the batch dimension but not the ragged"),
        (lambda x: x.sum((1, 2)), RuntimeError, r"sum\(\): reducing along a ragged and non-batch dimension"),
        (
            lambda x: x.var(1),
            NotImplementedError,
            r"var\(\): not supported for nested tensors along the ragged",
        ),
        (lambda x: x.softmax(0), RuntimeError, r"softmax\(\): not supported when reducing across the batch"),
        (lambda x: x.transpose(0, 1), ValueError, "not supported on the batch dimension"),
        (lambda x: x.flatten(), RuntimeError, r"flatten\(\): not supported for NestedTensor on dim=0"),
        (lambda x: x.flatten(1), RuntimeError, r"flatten\(\): not supported for NestedTensor on ragged dim"),
        (lambda x: x.split(1, 1), RuntimeError, r"split\(\): not supported for NestedTensor on ragged dim"),
        (lambda x: x.chunk(2, 1), RuntimeError, r"chunk\(\): not supported for NestedTensor on ragged dim"),
        (lambda x: tt.cat([x, x]), RuntimeError, r"cat\(\): not supported for NestedTensor on dim=0"),
        (lambda x: x[:1], RuntimeError, r"slice\(\): not supported for NestedTensor on dim=0"),
        (
            lambda x: x.view(3, 6, 4),
            RuntimeError,
            r"view\(\): cannot view shape \(3, j\d+, 4\) as \[3, 6, 4\]",
        ),
        (lambda x: x.unbind(1), RuntimeError, "only supported for NestedTensor on dim=0"),
        (lambda x: x.size(3), IndexError, "Dimension out of range"),
        (lambda x: x @ x, RuntimeError, r"matmul\(\): not supported between inputs of shapes"),
        (lambda x: F.linear(x.mT, tt.ones(2, 4)), ValueError, r"linear\(\): expected input"),
        (lambda x: F.layer_norm(x, (3, 4)), ValueError, r"layer_norm\(\): Normalization over the ragged dim"),
        (
            lambda x: x.sort(2),
            NotImplementedError,
            r"sort\(\): not supported for .* triten.jagged",
        ),
        (lambda x: tt.ops.aten.sort.default(x), NotImplementedError, "sort.*jagged"),
        (lambda x: x.tolist(), RuntimeError, "tolist"),
        (lambda x: x.numpy(), RuntimeError, "numpy"),
        (lambda x: tt.add(x, 1, out=tt.ones(1)), RuntimeError, r"add\(\): out= is not supported"),
        (
            lambda x: F.scaled_dot_product_attention(x, x, tt.ones(3, 2, 4)),
            ValueError,
            "all nested or all non-nested",
        ),
        (lambda x: tt.nested.nested_tensor([], layout=tt.jagged), RuntimeError, "empty tensor list"),
        (
            lambda x: tt.nested.nested_tensor([tt.ones(2, 3), tt.ones(2)], layout=tt.jagged),
            RuntimeError,
            r"all tensors in list must have the same dim, got \[2, 1\]",
        ),
        (
            lambda x: tt.nested.nested_tensor([tt.ones(2, 3), tt.ones(3, 4)], layout=tt.jagged),
            RuntimeError,
            "only allows for a single ragged dimension",
        ),
        (lambda x: tt.nested.nested_tensor([tt.ones(2)], layout=tt.sparse_coo), RuntimeError, "unsupported"),
        (
            lambda x: tt.nested.nested_tensor_from_jagged(tt.ones(2)),
            RuntimeError,
            "At least one of offsets or lengths",
        ),
        (lambda x: tt.nested.as_nested_tensor(3), TypeError, "got int"),
        (lambda x: tt.nested.as_nested_tensor(tt.ones(3)), RuntimeError, r"dim\(\) > 1, got 1"),
        (lambda x: tt.nested.as_nested_tensor(x), RuntimeError, "Converting between nested tensor layouts"),
    ],
)
def test_what_is_not_supported_says_so(call, error, message):
    x = jagged()
    with pytest.raises(error, match=message):
        call(x)
    close(x.values(), tt.cat(sequences()).numpy())
