"""Tensor types by dtype and device: constructors, isinstance, and conversions."""

import typing

import numpy as np
import pytest

import triten as tt

DTYPES = {
    "BFloat16Tensor": tt.bfloat16,
    "BoolTensor": tt.bool,
    "ByteTensor": tt.uint8,
    "CharTensor": tt.int8,
    "DoubleTensor": tt.float64,
    "FloatTensor": tt.float32,
    "HalfTensor": tt.float16,
    "IntTensor": tt.int32,
    "LongTensor": tt.int64,
    "ShortTensor": tt.int16,
}


@pytest.mark.parametrize("name", DTYPES)
def test_a_type_makes_tensors_and_knows_them(name: str, device: str) -> None:
    dtype = DTYPES[name]
    kind = getattr(tt if device == "cpu" else tt.cuda, name)
    for made, shape in (
        (kind(), (0,)),
        (kind(2, 3), (2, 3)),
        (kind(np.int64(2)), (2,)),
        (kind(tt.Size([3, 1])), (3, 1)),
        (kind([1, 0]), (2,)),
        (kind((1, 0)), (2,)),
        (kind([[1, 0], [0, 1]]), (2, 2)),
        (kind(np.ones(2)), (2,)),
        (kind(range(2)), (2,)),
        (kind(size=(4,)), (4,)),
        (kind(data=[1]), (1,)),
    ):
        assert made.dtype is dtype and made.device.type == device and made.shape == shape
        assert isinstance(made, kind) and not isinstance(made.to("meta"), kind)
    assert kind([1, 0, 1]).tolist() == [1, 0, 1]
    prefix = "triten." if device == "cpu" else "triten.cuda."
    assert kind([1]).type() == prefix + name
    assert repr(kind) == f"<class '{prefix}{name}'>" and kind.__name__ == name
    assert (kind.dtype, kind.is_cuda, kind.layout) == (dtype, device == "cuda", tt.strided)
    x = tt.tensor([1, 0], device=device)
    for asked in (kind, prefix + name, dtype, (prefix + name).replace("triten", "torch")):
        assert isinstance(x.type(asked), kind) and x.type(asked).tolist() == [1, 0]
    already = x.type(kind)
    assert already.type(kind) is already and kind(already).data_ptr() == already.data_ptr()


def test_conversions_between_devices_and_the_default_type() -> None:
    x = tt.ones(2, device="cuda")
    assert isinstance(x.type(tt.DoubleTensor), tt.DoubleTensor) and isinstance(
        x.cpu().type(x.type()), tt.cuda.FloatTensor
    )
    assert x.cpu().type("triten.meta.HalfTensor").type() == "triten.meta.HalfTensor"
    assert tt.ones(2, dtype=tt.int64).type(tt.Tensor).dtype is tt.float32
    assert tt.ones(2, dtype=tt.complex64).type() == "triten.ComplexFloatTensor"
    try:
        tt.set_default_tensor_type("triten.cuda.DoubleTensor")
        assert tt.zeros(1).type() == "triten.cuda.DoubleTensor"
        tt.set_default_tensor_type(tt.HalfTensor)
        assert tt.zeros(1).type() == "triten.HalfTensor"
    finally:
        tt.set_default_tensor_type(tt.FloatTensor)
    assert tt.zeros(1).type() == "triten.FloatTensor"


def test_new(device: str) -> None:
    x = tt.ones(2, dtype=tt.int16, device=device, requires_grad=False)
    for made, shape in ((x.new(), (0,)), (x.new(3, 1), (3, 1)), (x.new([1.5, 2.5]), (2,)), (x.new(x), (2,))):
        assert made.dtype is tt.int16 and made.device == x.device and made.shape == shape
    assert x.new([1.5, 2.5]).tolist() == [1, 2]
    x.new(x).fill_(5)
    assert x.tolist() == [5, 5]
    assert x.new(x.untyped_storage()).shape == (2,)
    y = tt.ones(2, device=device, requires_grad=True)
    y.new(y).sum().backward()
    assert y.grad.tolist() == [1, 1]


REFUSED = [
    (TypeError, "must be a sequence", lambda: tt.FloatTensor(2.5)),
    (TypeError, "must be a sequence", lambda: tt.FloatTensor(None)),
    (TypeError, "must be a sequence", lambda: tt.FloatTensor(True)),
    (TypeError, "must be a sequence", lambda: tt.FloatTensor({})),
    (TypeError, "invalid data type 'str'", lambda: tt.FloatTensor("a")),
    (TypeError, "at pos 2", lambda: tt.FloatTensor(2, "a")),
    (TypeError, "invalid combination", lambda: tt.FloatTensor([1], 2)),
    (TypeError, "invalid combination", lambda: tt.FloatTensor([1], dtype=tt.int64)),
    (TypeError, "invalid combination", lambda: tt.ones(1).new(2, requires_grad=True)),
    (TypeError, "triten.DoubleTensor", lambda: tt.FloatTensor(tt.ones(1, dtype=tt.float64))),
    (RuntimeError, "legacy constructor expects device type: cpu", lambda: tt.FloatTensor([1], device="cuda")),
    (RuntimeError, "negative", lambda: tt.FloatTensor(-1)),
    (ValueError, "expected sequence of length 2", lambda: tt.FloatTensor([[1, 2], [3]])),
    (ValueError, "invalid type: 'float'", lambda: tt.ones(1).type(float)),
    (ValueError, "invalid type: 'triten.FooTensor'", lambda: tt.ones(1).type("triten.FooTensor")),
    (ValueError, "invalid type: 'float'", lambda: tt.ones(1).type("float")),
    (TypeError, "must be a type, str, or dtype", lambda: tt.ones(1).type(3)),
    (TypeError, "only floating-point types", lambda: tt.set_default_tensor_type(tt.LongTensor)),
    (TypeError, "only floating-point types", lambda: tt.set_default_tensor_type(3)),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refused(case: int) -> None:
    error, words, function = REFUSED[case]
    with pytest.raises(error, match=words):
        function()


def test_what_no_tensor_is(device: str) -> None:
    x = tt.ones(2, 3, device=device)
    for name in ("sparse", "sparse_csr", "quantized", "nested", "mkldnn", "xla", "xpu", "mps", "ipu"):
        assert getattr(x, f"is_{name}") is False
    assert (x.sparse_dim(), x.dense_dim()) == (0, 2)
    assert x.to_dense() is x and x.to_dense(tt.float64).dtype is tt.float64
    assert tt.is_storage(x.untyped_storage()) and not tt.is_storage(x)
    assert tt.typename(x) == x.type() and tt.typename(tt.nn.Linear(1, 1)).endswith(".Linear")


def test_a_type_may_stand_in_a_union():
    assert tt.LongTensor | None == typing.Optional[tt.LongTensor]  # noqa: UP045
    assert set(typing.get_args(int | tt.FloatTensor)) == {int, tt.FloatTensor}


@pytest.mark.parametrize("make", [tt.Tensor, tt.ones(1).new, tt.FloatTensor])
def test_a_tensor_takes_no_device(make):
    with pytest.raises(RuntimeError, match=r"of the form \(tensor, device=device\) is not supported"):
        make(tt.ones(1), device="cpu")


@pytest.mark.parametrize("name", ["FloatTensor", "LongTensor"])
def test_a_type_is_no_base_class(name: str) -> None:
    kind = getattr(tt, name)
    with pytest.raises(TypeError, match=f"type 'triten.{name}' is not an acceptable base type"):

        class Sub(kind):
            pass
