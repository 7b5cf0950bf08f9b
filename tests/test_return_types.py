"""Named tuples of results: found by operator, printed, pickled and copied as PyTorch's are."""

import copy
import pickle

import pytest

import triten as tt


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("sort", lambda x: tt.sort(x)),
        ("max", lambda x: x.max(0)),
        ("mode", lambda x: tt.mode(x)),
        ("linalg_eigh", lambda x: tt.linalg.eigh(x)),
        ("slogdet", lambda x: tt.slogdet(x)),
    ],
)
def test_found_by_name(name: str, call) -> None:
    results = call(tt.tensor([[2.0, 1.0], [1.0, 3.0]]))
    made = getattr(tt.return_types, name)
    assert type(results) is made and isinstance(results, tuple)
    for restored in (pickle.loads(pickle.dumps(results)), copy.deepcopy(results), made(tuple(results))):
        assert type(restored) is made
        assert all(tt.equal(a, b) for a, b in zip(restored, results, strict=True))


def test_printed_with_names() -> None:
    assert repr(tt.tensor([2.0, 1.0]).sort()) == (
        "triten.return_types.sort(\nvalues=tensor([1., 2.]),\nindices=tensor([1, 0]))"
    )


@pytest.mark.parametrize("name", ["relu", "std_mean", "no_such_operator"])
def test_operators_without_named_results_have_none(name: str) -> None:
    with pytest.raises(AttributeError, match=name):
        getattr(tt.return_types, name)


def test_classes_of_calls_with_out_are_those_of_calls_without() -> None:
    x = tt.ones(2, 2)
    found = tt.max(x, 1, out=(tt.empty(2), tt.empty(2, dtype=tt.int64)))
    assert isinstance(found, tt.return_types.max_out) and tt.return_types.max_out is tt.return_types.max
    with pytest.raises(AttributeError):
        _ = tt.return_types.none_out
