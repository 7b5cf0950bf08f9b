"""PyTorch's functions of symbolic numbers apply to Python's numbers; triten has no symbolic ones."""

import math

import pytest

import triten as tt


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: tt.sym_int(3.7), 3),
        (lambda: tt.sym_int(-3.7), -3),
        (lambda: tt.sym_float(3), 3.0),
        (lambda: tt.sym_max(3, 2.0), 3.0),
        (lambda: tt.sym_max(1, 2), 2),
        (lambda: tt.sym_max(1, math.nan), 1.0),
        (lambda: tt.sym_min(3, 2.0), 2.0),
        (lambda: tt.sym_not(2), False),
        (lambda: tt.sym_ite(False, 1, 2), 2),
        (lambda: tt.sym_sum([]), 0),
        (lambda: tt.sym_sum((1, 2.5)), 3.5),
        (lambda: tt.sym_sqrt(4), 2.0),
    ],
)
def test_functions(call, expected):
    found = call()
    assert found == expected and type(found) is type(expected)


def test_what_they_refuse():
    with pytest.raises(AssertionError, match="expected a bool, got <class 'int'>"):
        tt.sym_ite(1, 1, 2)
    with pytest.raises(AssertionError, match="of one type, got <class 'int'> and <class 'float'>"):
        tt.sym_ite(True, 1, 2.0)
    with pytest.raises(ValueError):  # the words are those of Python's math.sqrt, and change with it
        tt.sym_sqrt(-1)


@pytest.mark.parametrize("cls", [tt.SymInt, tt.SymFloat, tt.SymBool])
def test_there_are_no_symbolic_numbers(cls):
    assert not any(isinstance(value, cls) for value in (2, 2.0, True, tt.ones(2).shape[0]))
    with pytest.raises(TypeError, match=f"{cls.__name__}: there are no symbolic numbers"):
        cls(2)
