"""Quantized tensors in files, pickles and deep copies."""

import copy
import io
import pickle
from collections.abc import Callable

import pytest

import triten as tt

X = tt.tensor([[-1.0, 0.0, 0.5], [1.0, 2.0, 3.0]])
EXAMPLES = {
    "one scale": lambda: tt.quantize_per_tensor(X, 0.1, 10, tt.quint8),
    "32 bits": lambda: tt.quantize_per_tensor(X, 0.1, 10, tt.qint32),
    "channels": lambda: tt.quantize_per_channel(X, tt.tensor([0.1, 0.2]), tt.tensor([0, 1]), 0, tt.qint8),
    "floating zero points": lambda: tt.quantize_per_channel(
        X, tt.tensor([0.1, 0.2]), tt.tensor([0.5, 1.0]), 0, tt.quint8
    ),
    "half bytes": lambda: tt.quantize_per_tensor(X, 0.1, 10, tt.quint4x2),
    "a view": lambda: tt.quantize_per_tensor(X, 0.1, 10, tt.qint8).t()[1:],
}


def saved(q: tt.Tensor) -> tt.Tensor:
    file = io.BytesIO()
    tt.save(q, file)
    file.seek(0)
    return tt.load(file, weights_only=True)


WAYS: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    "save": saved,
    "pickle": lambda q: pickle.loads(pickle.dumps(q)),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("example", EXAMPLES)
def test_a_tensor_comes_back(example: str, way: str) -> None:
    q = EXAMPLES[example]()
    back = WAYS[way](q)
    assert back.equal(q)
    assert (back.dtype, back.shape, back.stride(), back.qscheme()) == (
        q.dtype,
        q.shape,
        q.stride(),
        q.qscheme(),
    )
    assert back.data_ptr() != q.data_ptr()


def test_what_shares_bytes_shares_them_after() -> None:
    q = EXAMPLES["one scale"]()
    whole, row = copy.deepcopy([q, q[1]])
    row.fill_(0.0)
    assert whole.int_repr().tolist() == [[0, 10, 15], [10, 10, 10]]
    assert q.int_repr()[1].tolist() == [20, 30, 40]
