"""Python's operators and conversions refuse the same operands as PyTorch's tensors, with the same error types."""

import operator

import pytest

import triten as tt


def delete(x, index):
    del x[index]


def assign(x, index, value):
    x[index] = value


FLOATS, WHOLE, TRUTHS, COMPLEX = "float32", "int64", "bool", "complex64"
ALL = (FLOATS, WHOLE, TRUTHS, COMPLEX)
REFUSED = [
    ("~x", (FLOATS, COMPLEX), TypeError, lambda x: ~x),
    ("bitwise_not(x)", (FLOATS, COMPLEX), NotImplementedError, tt.bitwise_not),
    ("-x", (TRUTHS,), RuntimeError, operator.neg),
    ("x - x", (TRUTHS,), RuntimeError, lambda x: x - x),
    ("x & x", (FLOATS, COMPLEX), NotImplementedError, lambda x: x & x),
    ("x << x", (TRUTHS, COMPLEX), NotImplementedError, lambda x: x << x),
    ("x < x", (COMPLEX,), NotImplementedError, lambda x: x < x),
    ("x // x", (COMPLEX,), NotImplementedError, lambda x: x // x),
    ("x % x", (COMPLEX,), NotImplementedError, lambda x: x % x),
    ("x // 0", (WHOLE,), RuntimeError, lambda x: x // 0),
    ("x ** -1", (WHOLE,), RuntimeError, lambda x: x**-1),
    ("x + 'a'", ALL, TypeError, lambda x: x + "a"),
    ("'a' + x", ALL, TypeError, lambda x: "a" + x),
    ("x + None", ALL, TypeError, lambda x: x + None),
    ("x + [1]", ALL, TypeError, lambda x: operator.add(x, [1])),
    ("x < None", ALL, TypeError, lambda x: x < None),
    ("x @ 2", ALL, TypeError, lambda x: x @ 2),
    ("x @ x[0]", ALL, RuntimeError, lambda x: x @ x[0]),
    ("pow(x, 2, 3)", ALL, TypeError, lambda x: pow(x, 2, 3)),
    ("bool(x)", ALL, RuntimeError, bool),
    ("int(x)", ALL, ValueError, int),
    ("float(x)", ALL, ValueError, float),
    ("complex(x)", ALL, ValueError, complex),
    ("x.item()", ALL, RuntimeError, lambda x: x.item()),
    ("x.__index__()", ALL, TypeError, operator.index),
    ("range(3)[x[0]]", (FLOATS, COMPLEX), TypeError, lambda x: range(3)[x[0]]),
    ("bool(empty)", ALL, RuntimeError, lambda x: bool(x[:0])),
    ("len(x[0])", ALL, TypeError, lambda x: len(x[0])),
    ("iter(x[0])", ALL, TypeError, lambda x: iter(x[0])),
    ("x[0][0]", ALL, IndexError, lambda x: x[0][0]),
    ("x[5]", ALL, IndexError, lambda x: x[5]),
    ("x[0, 0]", ALL, IndexError, lambda x: x[0, 0]),
    ("x['a']", ALL, TypeError, lambda x: x["a"]),
    ("x[1.0]", ALL, IndexError, lambda x: x[1.0]),
    ("x[0:'a']", ALL, TypeError, lambda x: x[0:"a"]),
    ("x[[5]]", ALL, IndexError, lambda x: x[[5]]),
    ("x[mask of three]", ALL, IndexError, lambda x: x[tt.tensor([True, True, False], device=x.device)]),
    ("x[floats]", ALL, IndexError, lambda x: x[tt.ones(2, device=x.device)]),
    ("x[object()]", ALL, IndexError, lambda x: x[object()]),
    ("del x[0]", ALL, TypeError, lambda x: delete(x, 0)),
    ("x[0] = 'a'", ALL, TypeError, lambda x: assign(x, 0, "a")),
    ("x[0] = None", ALL, TypeError, lambda x: assign(x, 0, None)),
    ("x[5] = 1", ALL, IndexError, lambda x: assign(x, 5, 1)),
    ("x[:] = three", ALL, RuntimeError, lambda x: assign(x, slice(None), tt.ones(3, device=x.device))),
    ("x['a'] = 1", ALL, TypeError, lambda x: assign(x, "a", 1)),
    ("x += 1j", (FLOATS, WHOLE, TRUTHS), RuntimeError, lambda x: operator.iadd(x, 1j)),
    ("x /= 2", (WHOLE, TRUTHS), RuntimeError, lambda x: operator.itruediv(x, 2)),
    ("x += three", ALL, RuntimeError, lambda x: operator.iadd(x, tt.ones(3, device=x.device))),
    ("copy_('a')", ALL, TypeError, lambda x: x.copy_("a")),
    ("copy_(None)", ALL, TypeError, lambda x: x.copy_(None)),
    ("copy_([1, 1])", ALL, TypeError, lambda x: x.copy_([1, 1])),
]
OF_THE_HOST = {"x // 0", "x ** -1"}
"""What only the host sees before it computes; a GPU gives numbers."""
CASES = [(name, dtype, error, function) for name, dtypes, error, function in REFUSED for dtype in dtypes]
NAMES = [f"{dtype}: {name}" for name, dtypes, _, _ in REFUSED for dtype in dtypes]


@pytest.mark.usefixtures("launch_blocking")
@pytest.mark.parametrize(("name", "dtype", "error", "function"), CASES, ids=NAMES)
def test_refused_and_operands_left_alone(name: str, dtype: str, error: type, function, device: str) -> None:
    if name in OF_THE_HOST and device == "cuda":
        pytest.skip("not seen by a kernel, as in PyTorch")
    x = tt.ones(2, dtype=getattr(tt, dtype), device=device)
    with pytest.raises(error) as raised:
        function(x)
    assert raised.type is error
    assert x.tolist() == [1, 1]


def test_invert_under_modes_and_of_the_mapped() -> None:
    with tt.no_grad(), tt.inference_mode():
        assert (~tt.tensor([True, False])).tolist() == [False, True]
        with pytest.raises(TypeError, match=r"operator\.invert.*float32"):
            ~tt.ones(2)
    assert tt.vmap(lambda x: ~x)(tt.tensor([0, 1])).tolist() == [-1, -2]
    with pytest.raises(TypeError, match=r"operator\.invert"):
        tt.vmap(lambda x: ~x)(tt.ones(2))
