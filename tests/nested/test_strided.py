"""Nested tensors of layout strided: a list of tensors of any sizes, each of which gets the call."""

import copy
import pickle

import pytest

import triten as tt

F = tt.nn.functional


def parts(device="cpu"):
    return [tt.arange(6.0, device=device).view(2, 3), tt.arange(12.0, device=device).view(4, 3) - 5]


def weight(like):
    return tt.arange(6.0, device=like.device).view(2, 3)


MAPPED = {
    "relu": (F.relu, F.relu),
    "sum of two": (lambda x: x + x, lambda p: p + p),
    "product with a number": (lambda x: 2 * x, lambda p: 2 * p),
    "gelu": (F.gelu, F.gelu),
    "linear": (
        lambda x: F.linear(x, tt.ones(2, 3, device=x.device)),
        lambda p: F.linear(p, tt.ones(2, 3, device=p.device)),
    ),
    "layer_norm": (lambda x: F.layer_norm(x, (3,)), lambda p: F.layer_norm(p, (3,))),
    "softmax": (lambda x: x.softmax(-1), lambda p: p.softmax(-1)),
    "softmax of an irregular dimension": (lambda x: x.softmax(1), lambda p: p.softmax(0)),
    "sum": (lambda x: x.sum(-1, keepdim=True), lambda p: p.sum(-1, keepdim=True)),
    "transpose": (lambda x: x.transpose(1, 2), lambda p: p.t()),
    "matmul": (lambda x: x @ x.transpose(1, 2), lambda p: p @ p.t()),
    "chunk": (lambda x: x.chunk(3, -1)[1], lambda p: p.chunk(3, -1)[1]),
    "reshape": (lambda x: x.reshape(2, -1, 3, 1), lambda p: p.reshape(-1, 3, 1)),
    "dropout": (lambda x: F.dropout(x, 0.0), lambda p: p),
    "clone": (lambda x: x.clone(), lambda p: p.clone()),
    "double": (lambda x: x.to(tt.float64), lambda p: p.double()),
}


@pytest.mark.parametrize("name", MAPPED)
def test_each_tensor_gets_the_call(name, device):
    nested_call, call = MAPPED[name]
    x = tt.nested.nested_tensor(parts(device), requires_grad=True)
    y = nested_call(x)
    leaves = [each.requires_grad_() for each in parts(device)]
    expected = [call(each) for each in leaves]
    assert y.is_nested and y.layout is tt.strided and y.requires_grad
    for found, wanted in zip(y.unbind(), expected, strict=True):
        assert found.shape == wanted.shape and found.dtype is wanted.dtype
        tt.testing.assert_close(found, wanted)
    sum((each * each).sum() for each in y.unbind()).backward()
    sum((each * each).sum() for each in expected).backward()
    for found, leaf in zip(x.grad.unbind(), leaves, strict=True):
        tt.testing.assert_close(found, leaf.grad)


def test_sizes_of_several_irregular_dimensions(device):
    x = tt.nested.nested_tensor([tt.ones(2, 5, device=device), tt.ones(3, 4, device=device)])
    assert isinstance(x, tt.Tensor) and x.is_nested
    assert (x.dim(), x.size(0), x.numel(), len(x), x.device.type) == (3, 2, 22, 2, device)
    for dim in (1, 2, -1):
        with pytest.raises(
            RuntimeError, match=f"Given dimension {dim % 3} is irregular and does not have a size"
        ):
            x.size(dim)
    with pytest.raises(RuntimeError, match="have no shape"):
        x.shape  # noqa: B018
    padded = tt.nested.to_padded_tensor(x, 2.0, (2, 4, 6))
    assert padded[0].tolist() == [[1.0] * 5 + [2.0]] * 2 + [[2.0] * 6] * 2
    assert x.to_padded_tensor(0.0).shape == (2, 3, 5)
    with pytest.raises(RuntimeError, match="Truncation is not supported"):
        x.to_padded_tensor(0.0, (2, 3, 4))


def test_elements_text_and_subscripts():
    x = tt.nested.nested_tensor([[1.0, 2.0], [3.0]])
    assert repr(x) == "nested_tensor([\n  tensor([1., 2.]),\n  tensor([3.])\n])"
    assert x.values().tolist() == [1, 2, 3] and x[1].tolist() == [3] and x[0, 1].item() == 2
    assert x.sum().item() == 6 and x.is_contiguous() and x.dtype is tt.float32
    assert [each.tolist() for each in tt.cat([x, x])] == [[1, 2], [3], [1, 2], [3]]
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert [each.tolist() for each in other] == [[1, 2], [3]]


def test_the_graph_of_the_tensors_it_was_made_of(device):
    a, b = (tt.ones(n, device=device, requires_grad=True) for n in (2, 3))
    x = tt.nested.as_nested_tensor([a, b])
    x.backward(tt.nested.nested_tensor([tt.ones(2, device=device), tt.zeros(3, device=device)]))
    assert a.grad.tolist() == [1, 1] and b.grad.tolist() == [0, 0, 0]
    leaf = tt.nested.nested_tensor([a, b], requires_grad=True)
    (found,) = tt.autograd.grad((leaf * 3).sum(), leaf)
    assert [each.tolist() for each in found] == [[3, 3], [3, 3, 3]] and leaf.grad is None
    assert tt.nested.as_nested_tensor(tt.ones(2, 3)).size(1) == 3
    narrowed = tt.nested.narrow(tt.arange(6.0).view(2, 3), 1, 1, 2)
    assert [each.tolist() for each in narrowed] == [[1, 2], [4, 5]]


def test_modules_run_on_it(device):
    net = tt.nn.Sequential(tt.nn.Linear(3, 4), tt.nn.ReLU(), tt.nn.LayerNorm(4)).to(device)
    y = net(tt.nested.nested_tensor(parts(device)))
    assert y.size(-1) == 4
    for found, each in zip(y, parts(device), strict=True):
        tt.testing.assert_close(found, net(each))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.sum(-1), RuntimeError, "requires keepdim=True"),
        (
            lambda x: x.sort(),
            NotImplementedError,
            r"sort\(\): not supported for .* triten.strided",
        ),
        (lambda x: x.softmax(0), RuntimeError, r"Cannot apply softmax across nested dimension 0"),
        (lambda x: x + tt.nested.nested_tensor([tt.ones(1)]), RuntimeError, r"as many tensors, got \[2, 1\]"),
        (lambda x: tt.add(x, 1, out=tt.ones(1)), RuntimeError, r"out= is not supported"),
        (
            lambda x: tt.nested.nested_tensor([tt.ones(1), tt.ones(1, 1)]),
            RuntimeError,
            "All Tensors given to nested_tensor must have the same dimension",
        ),
        (
            lambda x: x.reshape(-1),
            RuntimeError,
            "For now nested reshape cannot change or infer the implicit batch",
        ),
    ],
)
def test_what_is_not_supported_says_so(call, error, message):
    with pytest.raises(error, match=message):
        call(tt.nested.nested_tensor(parts()))


def _pair():
    return tt.nested.nested_tensor([tt.arange(6.0).view(2, 3), tt.arange(12.0).view(4, 3)])


def _sizes(nested):
    return [list(each.shape) for each in nested.unbind()]


def test_dimensions_are_added_and_removed():
    nested = _pair()
    shapes = {dim: _sizes(nested.unsqueeze(dim)) for dim in (1, 2, 3, -1, -2, -3)}
    last, middle, first = [[2, 3, 1], [4, 3, 1]], [[2, 1, 3], [4, 1, 3]], [[1, 2, 3], [1, 4, 3]]
    assert shapes == {1: first, 2: middle, 3: last, -1: last, -2: middle, -3: first}
    assert all(nested.unsqueeze(dim).squeeze(dim).is_same_size(nested) for dim in shapes)
    for first, second in ((nested, tt.ones(2, 3)), (tt.ones(2, 3), nested)):
        with pytest.raises(RuntimeError, match="Expected both self and other to be nested tensors"):
            first.is_same_size(second)
    assert nested.squeeze(-1) is nested and nested.transpose(1, 1) is nested
    assert _sizes(nested.unsqueeze(1).unsqueeze(1).squeeze((1, 2))) == [[2, 3], [4, 3]]
    assert _sizes(nested.view(2, -1, 3, 1)) == [[2, 3, 1], [4, 3, 1]]
    assert _sizes(nested.view(2, -1, -1)) == [[2, 3], [4, 3]]
    assert nested._nested_tensor_size().tolist() == [[2, 3], [4, 3]]
    assert nested.transpose(1, 2)._nested_tensor_strides().tolist() == [[1, 3], [1, 3]]


def test_last_dimensions_are_split():
    first, second = _pair().split_with_sizes([1, 2], -1)
    assert [each.tolist() for each in first.unbind()] == [[[0.0], [3.0]], [[0.0], [3.0], [6.0], [9.0]]]
    assert _sizes(second) == [[2, 2], [4, 2]] and [_sizes(each) for each in _pair().split(2, -1)] == [
        [[2, 2], [4, 2]],
        [[2, 1], [4, 1]],
    ]
    assert len(_pair().split([1, 1, 1], 2)) == 3


def test_products_of_matrices():
    nested = _pair()
    expected = [each @ each.T for each in nested.unbind()]
    for found in (nested.bmm(nested.transpose(1, 2)), nested @ nested.transpose(-1, -2)):
        assert all(map(tt.equal, found.unbind(), expected))
    dense = tt.ones(2, 3, 1)
    assert [each.flatten().tolist() for each in nested.bmm(dense).unbind()] == [
        [3.0, 12.0],
        [3.0, 12.0, 21.0, 30.0],
    ]
    assert _sizes(tt.matmul(nested, tt.ones(3, 5))) == [[2, 5], [4, 5]]
    assert _sizes(tt.nn.functional.linear(nested, tt.ones(5, 3))) == [[2, 5], [4, 5]]


def test_no_tensors():
    none = tt.nested.nested_tensor([])
    assert none.dtype is tt.float32 and none.device.type == "cpu" and none.size(0) == 0
    assert none.is_contiguous() and repr(none) == "nested_tensor([\n\n])"
    assert tt.nested.to_padded_tensor(none, 4.0).shape == (0,) and len(tt.softmax(none, 1)) == 0


def test_tensors_are_packed():
    nested = tt.nested.nested_tensor([tt.ones(2, 3).T, tt.ones(4, 3).T])
    assert nested.is_contiguous() and nested.unbind()[0].stride() == (2, 1)
    other = tt.empty_like(nested)
    assert tt.equal(other.copy_(nested).unbind()[1], tt.ones(3, 4))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda n: n.squeeze(), RuntimeError, "squeeze without the dim argument is not supported"),
        (lambda n: n.squeeze(0), RuntimeError, "squeezing dimension 0 is not supported"),
        (lambda n: n.squeeze(3), IndexError, "Dimension out of range"),
        (lambda n: n.unsqueeze(0), RuntimeError, "unsqueezing dimension 0 is not supported"),
        (lambda n: n.unsqueeze(4), IndexError, "Dimension out of range"),
        (lambda n: n.transpose(0, 1), RuntimeError, "Nested tensor dimension 0 cannot be transposed"),
        (lambda n: n.chunk(2, 0), RuntimeError, "only supported for the last dimension"),
        (lambda n: n.chunk(4, 1), RuntimeError, "only supported for the last dimension"),
        (lambda n: n.split_with_sizes([1, 1], 1), RuntimeError, "only supported for the last dimension"),
        (lambda n: n.split_with_sizes([1, 1], 2), RuntimeError, "expects split_sizes to sum exactly to 3"),
        (lambda n: n.view(()), RuntimeError, "is invalid for a nested tensor"),
        (lambda n: n.view(3, -1), RuntimeError, "For now nested view cannot change or infer"),
        (lambda n: n.view(2, 2, 3), RuntimeError, "is invalid for input of size 12"),
        (lambda n: n.view(2, -1, -1, 1), RuntimeError, "only one dimension can be inferred"),
        (lambda n: n.bmm(n), RuntimeError, "0-th nested matrices in batch cannot be multiplied"),
        (lambda n: n.bmm(tt.ones(4)), RuntimeError, "a nested self and non-nested other"),
        (lambda n: tt.ones(4).matmul(n), RuntimeError, "a non-nested self and nested other"),
        (lambda n: n.bmm(tt.ones(3, 3, 1)), RuntimeError, "to be: 2 but got: 3"),
        (lambda n: n.sum([0, 1], keepdim=True), RuntimeError, "reduction of a single dimension"),
        (lambda n: n.sum(0, keepdim=True), RuntimeError, "reduced across the last dimension"),
        (lambda n: tt.nn.functional.linear(n, tt.ones(2, 4)), RuntimeError, "last_dim = 3, and weight"),
        (lambda n: tt.nn.functional.linear(n, n), RuntimeError, "does not support nested weight"),
        (lambda n: tt.layer_norm(n, (4, 3)), RuntimeError, "extends into irregular dimensions"),
        (
            lambda n: n.copy_(n.unsqueeze(1)),
            RuntimeError,
            "copy_ only supports tensors that are the same size",
        ),
        (
            lambda n: n.clone(memory_format=tt.channels_last),
            RuntimeError,
            "called clone with memory format: ChannelsLast",
        ),
        (lambda n: n.size(), RuntimeError, "NestedTensorImpl doesn't support sizes"),
        (lambda n: n.stride(), RuntimeError, "NestedTensorImpl doesn't support strides"),
        (lambda n: n[2], IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
        (lambda n: tt.nested.nested_tensor(tt.ones(2)), TypeError, "Only lists"),
        (
            lambda n: tt.nested.nested_tensor([]).view(-1),
            RuntimeError,
            "empty nested tensor cannot be reshaped",
        ),
    ],
)
def test_errors_are_those_of_torch(call, error, message):
    with pytest.raises(error, match=message):
        call(_pair())
