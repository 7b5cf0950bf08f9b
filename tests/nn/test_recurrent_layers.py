"""Recurrent layers and cells: names, first values, ranks, packed sequences, refusals; numbers are the operators'."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.tests.shared import comparison

rnn = tt.nn.utils.rnn
LAYERS: dict[str, dict[str, Any]] = {
    "RNN": {},
    "GRU": {"num_layers": 2, "bidirectional": True},
    "LSTM": {"num_layers": 2, "bidirectional": True, "proj_size": 2},
}


def made(name: str, **options: Any) -> Any:
    tt.manual_seed(5)
    return getattr(tt.nn, name)(3, 4, dtype=tt.float64, **{**LAYERS[name], **options})


def states(hidden: Any) -> tuple[Any, ...]:
    return hidden if isinstance(hidden, tuple) else (hidden,)


close = partial(comparison.close, rtol=1e-12, atol=1e-13)


def test_parameters_are_named_and_sized_as_pytorch_has_them() -> None:
    sizes = {name: tuple(p.shape) for name, p in made("LSTM").named_parameters()}
    layer = {
        "weight_ih": (16, 3),
        "weight_hh": (16, 2),
        "bias_ih": (16,),
        "bias_hh": (16,),
        "weight_hr": (2, 4),
    }
    expected = {}
    for k in range(2):
        for suffix in ("", "_reverse"):
            own = layer | ({"weight_ih": (16, 4)} if k else {})
            expected |= {f"{name}_l{k}{suffix}": size for name, size in own.items()}
    assert list(sizes.items()) == list(expected.items())
    assert [len(own) for own in made("GRU", bias=False).all_weights] == [2] * 4


def test_parameters_are_drawn_in_order_within_their_bound() -> None:
    layer = made("GRU")
    tt.manual_seed(5)
    for parameter in layer.parameters():
        expected = tt.empty(parameter.shape, dtype=tt.float64).uniform_(-0.5, 0.5)
        assert tt.equal(parameter, expected)
    cell = tt.nn.LSTMCell(3, 9)
    assert max(p.abs().max().item() for p in cell.parameters()) <= 1 / 3


@pytest.mark.parametrize("name", LAYERS)
def test_one_sequence_is_a_batch_of_one(name: str) -> None:
    layer = made(name)
    x = tt.randn(5, 3, dtype=tt.float64)
    output, hidden = layer(x)
    batched, all_hidden = layer(x[:, None])
    close(output, batched[:, 0])
    for one, many in zip(states(hidden), states(all_hidden), strict=True):
        close(one, many[:, 0])
    again, _ = layer(x, hidden)
    other, _ = layer(x[:, None], all_hidden)
    close(again, other[:, 0])


@pytest.mark.parametrize("name", LAYERS)
def test_batch_first_turns_inputs_and_outputs_alone(name: str) -> None:
    layer = made(name)
    turned = copy.deepcopy(layer)
    turned.batch_first = True
    x = tt.randn(5, 2, 3, dtype=tt.float64)
    (a, ha), (b, hb) = layer(x), turned(x.transpose(0, 1))
    close(a, b.transpose(0, 1))
    for one, other in zip(states(ha), states(hb), strict=True):
        close(one, other)


@pytest.mark.parametrize("name", LAYERS)
def test_packed_sequences_are_what_each_is_alone(name: str) -> None:
    layer = made(name)
    sequences = [tt.randn(n, 3, dtype=tt.float64) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    output, hidden = layer(packed)
    alone = [layer(one) for one in sequences]
    for got, (expected, _) in zip(rnn.unpack_sequence(output), alone, strict=True):
        close(got, expected)
    for at, (_, own) in enumerate(alone):
        for got, expected in zip(states(hidden), states(own), strict=True):
            close(got[:, at], expected)
    first = tuple(tt.randn(s.shape, dtype=tt.float64) for s in states(hidden))
    output, _ = layer(packed, first if name == "LSTM" else first[0])
    for at, (got, one) in enumerate(zip(rnn.unpack_sequence(output), sequences, strict=True)):
        own = tuple(s[:, at] for s in first)
        close(got, layer(one, own if name == "LSTM" else own[0])[0])


def test_weights_may_be_replaced() -> None:
    layer, x = made("RNN"), tt.ones(2, 1, 3, dtype=tt.float64)
    layer.weight_ih_l0 = tt.nn.Parameter(tt.zeros(4, 3, dtype=tt.float64))
    before = layer(x)[0]
    close(before, layer(x * 7)[0])


@pytest.mark.parametrize("cell", ["RNNCell", "GRUCell", "LSTMCell"])
def test_a_cell_steps_as_its_layer(cell: str) -> None:
    name = cell.removesuffix("Cell")
    one, layer = getattr(tt.nn, cell)(3, 4), getattr(tt.nn, name)(3, 4)
    layer.load_state_dict({f"{key}_l0": value for key, value in one.state_dict().items()})
    x = tt.randn(2, 3)
    got, (_, expected) = one(x), layer(x[None])
    for a, b in zip(states(got), states(expected), strict=True):
        assert tt.allclose(a, b[0], atol=1e-6)
    for a, b in zip(states(one(x[0])), states(got), strict=True):
        assert tt.allclose(a, b[0], atol=1e-6)


REFUSED: dict[str, tuple[type[Exception], Callable[[], object]]] = {
    "dropout should be a number in range [0, 1]": (ValueError, lambda: tt.nn.GRU(3, 4, dropout=1.5)),
    "bias should be of type bool, got: int": (TypeError, lambda: tt.nn.GRU(3, 4, bias=1)),
    "hidden_size should be of type int, got: float": (TypeError, lambda: tt.nn.GRU(3, 4.0)),
    "input_size must be greater than zero": (ValueError, lambda: tt.nn.GRU(0, 4)),
    "num_layers must be greater than zero": (ValueError, lambda: tt.nn.GRU(3, 4, 0)),
    "proj_size has to be smaller than hidden_size": (ValueError, lambda: tt.nn.LSTM(3, 4, proj_size=4)),
    "proj_size argument is only supported for LSTM, not RNN or GRU": (
        ValueError,
        lambda: tt.nn.RNN(3, 4, proj_size=2),
    ),
    "Unknown nonlinearity 'sin'. Select from 'tanh' or 'relu'.": (
        ValueError,
        lambda: tt.nn.RNN(3, 4, nonlinearity="sin"),
    ),
    "Unrecognized RNN mode: SRU": (ValueError, lambda: tt.nn.RNNBase("SRU", 3, 4)),
    "LSTM: Expected input to be 2D or 3D, got 1D instead": (ValueError, lambda: tt.nn.LSTM(3, 4)(tt.ones(3))),
    "RNN: Expected input to be 2D or 3D, got 4D tensor instead": (
        ValueError,
        lambda: tt.nn.RNN(3, 4)(tt.ones(1, 1, 1, 3)),
    ),
    "RNN input dtype (": (ValueError, lambda: tt.nn.GRU(3, 4)(tt.ones(2, 3, dtype=tt.float64))),
    "input.size(-1) must be equal to input_size. Expected 3, got 5": (
        RuntimeError,
        lambda: tt.nn.GRU(3, 4)(tt.ones(2, 5)),
    ),
    "For batched 3-D input, hx should also be 3-D but got 2-D tensor": (
        RuntimeError,
        lambda: tt.nn.GRU(3, 4)(tt.ones(2, 1, 3), tt.ones(1, 4)),
    ),
    "For unbatched 2-D input, hx and cx should also be 2-D but got (3-D, 2-D) tensors": (
        RuntimeError,
        lambda: tt.nn.LSTM(3, 4)(tt.ones(2, 3), (tt.ones(1, 1, 4), tt.ones(1, 4))),
    ),
    "Expected hidden[1] size (1, 1, 4), got [1, 1, 3]": (
        RuntimeError,
        lambda: tt.nn.LSTM(3, 4)(tt.ones(2, 1, 3), (tt.ones(1, 1, 4), tt.ones(1, 1, 3))),
    ),
    "GRUCell: Expected hidden to be 1D or 2D, got 3D instead": (
        ValueError,
        lambda: tt.nn.GRUCell(3, 4)(tt.ones(2, 3), tt.ones(1, 2, 4)),
    ),
    "LSTMCell: Expected hx[1] to be 1D or 2D, got 3D instead": (
        ValueError,
        lambda: tt.nn.LSTMCell(3, 4)(tt.ones(2, 3), (tt.ones(2, 4), tt.ones(1, 2, 4))),
    ),
    "Unknown nonlinearity: sin": (RuntimeError, lambda: tt.nn.RNNCell(3, 4, nonlinearity="sin")(tt.ones(3))),
    "`lengths` array must be sorted in decreasing order": (
        RuntimeError,
        lambda: rnn.pack_padded_sequence(tt.ones(3, 2), [1, 2]),
    ),
    "Expected `len(lengths)` to be equal to batch_size, but got 3 (batch_size=2)": (
        RuntimeError,
        lambda: rnn.pack_padded_sequence(tt.ones(3, 2), [3, 2, 1]),
    ),
    "Length of all samples has to be greater than 0": (
        RuntimeError,
        lambda: rnn.pack_padded_sequence(tt.ones(3, 2), [3, 0]),
    ),
    "Cannot pack empty tensors.": (
        RuntimeError,
        lambda: rnn.pack_padded_sequence(tt.ones(0, 2), tt.ones(2, 1)),
    ),
    "Expected total_length to be at least the length": (
        ValueError,
        lambda: rnn.pad_packed_sequence(rnn.pack_sequence([tt.ones(3)]), total_length=2),
    ),
    "received an empty list of sequences": (RuntimeError, lambda: rnn.pad_sequence([])),
    "Expected padding_side to be one of left or right, but got up.": (
        RuntimeError,
        lambda: rnn.pad_sequence([tt.ones(1)], padding_side="up"),
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(message: str) -> None:
    kind, call = REFUSED[message]
    with pytest.raises(kind) as error:
        call()
    assert message in str(error.value)


def test_dropout_of_one_layer_is_pointless() -> None:
    with pytest.warns(UserWarning, match="dropout option adds dropout after all but last"):
        tt.nn.GRU(3, 4, dropout=0.5)


def test_packing_and_padding_are_inverse(device: str) -> None:
    x = tt.arange(24.0, device=device).reshape(4, 3, 2).requires_grad_()
    packed = rnn.pack_padded_sequence(x, tt.tensor([2, 4, 1]), enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1] and packed.data.device == x.device
    assert (packed.sorted_indices.tolist(), packed.unsorted_indices.tolist()) == ([1, 0, 2], [1, 0, 2])
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=-1, total_length=5)
    inside = tt.arange(5)[:, None] < tt.tensor([2, 4, 1])
    expected = tt.full((5, 3, 2), -1.0)
    expected[:4] = tt.where(inside[:4, :, None], x.detach().cpu(), -1.0)
    assert lengths.tolist() == [2, 4, 1] and tt.equal(padded.cpu(), expected)
    packed.data.sum().backward()
    assert tt.equal(x.grad.cpu(), inside[:4, :, None].to(tt.float32).expand(4, 3, 2))


def test_padding_on_either_side() -> None:
    a, b = tt.tensor([1, 2, 3]), tt.tensor([4])
    assert rnn.pad_sequence([a, b]).tolist() == [[1, 4], [2, 0], [3, 0]]
    assert rnn.pad_sequence([b, a], True, 9, "left").tolist() == [[9, 9, 4], [1, 2, 3]]
    assert [s.tolist() for s in rnn.unpad_sequence(tt.tensor([[1, 4], [2, 0]]), tt.tensor([2, 1]))] == [
        [1, 2],
        [4],
    ]


def test_packed_sequences_move(device: str) -> None:
    packed = rnn.pack_sequence([tt.ones(1), tt.ones(2)], enforce_sorted=False)
    assert packed.to(tt.float32) is packed
    moved = packed.to(device).double()
    assert moved.data.dtype is tt.float64 and moved.sorted_indices.device.type == device
    assert moved.batch_sizes.device.type == "cpu" and moved.is_cuda == (device == "cuda")
    with pytest.raises(ValueError, match="batch_sizes should always be on CPU"):
        rnn.PackedSequence(tt.ones(1), tt.ones(1, dtype=tt.int64, device="meta"))


@pytest.mark.parametrize("name", LAYERS)
def test_beside_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours = made(name)
    theirs = getattr(torch.nn, name)(3, 4, dtype=torch.float64, **LAYERS[name])
    assert list(theirs.state_dict()) == list(ours.state_dict()) and repr(theirs) == repr(ours)
    theirs.load_state_dict({k: torch.from_numpy(v.numpy()) for k, v in ours.state_dict().items()})
    x = np.random.default_rng(1).standard_normal((5, 2, 3))
    a, b = ours(tt.tensor(x))[0], theirs(torch.tensor(x))[0]
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-13)
    a.sin().sum().backward()
    b.sin().sum().backward()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-11, atol=1e-12)
    assert math.isclose(a.sum().item(), b.sum().item())


@pytest.mark.parametrize("bidirectional", [False, True])
def test_flat_weights_are_the_weights_in_use(bidirectional):
    layer = tt.nn.LSTM(2, 3, num_layers=2, bidirectional=bidirectional)
    names = layer._flat_weights_names
    assert names == [name for name, _ in layer.named_parameters()]
    assert all(a is b for a, b in zip(layer._flat_weights, layer.parameters(), strict=True))
    x = tt.randn(4, 1, 2)
    doubled = copy.deepcopy(layer)
    for weight in doubled.parameters():
        weight.data.mul_(2)
    layer._flat_weights = doubled._flat_weights
    assert layer.weight_hh_l0 is doubled.weight_hh_l0 and tt.equal(layer(x)[0], doubled(x)[0])
    with pytest.raises(ValueError, match="shorter"):
        layer._flat_weights = doubled._flat_weights[:-1]
