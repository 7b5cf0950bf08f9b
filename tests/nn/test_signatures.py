"""Layers and functions take the arguments that PyTorch's take, under the same names and in the same order."""

import inspect

import pytest

import triten as tt

torch = pytest.importorskip("torch", reason="compares with PyTorch")

KEYWORDS_OF_FUNCTIONS = {"sigmoid", "tanh"}
"""Here the functions of the root, which take ``out=`` too."""


def described(function):
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def takes_anything(function):
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    return bool(kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


def shared(of, also, kind):
    return sorted(n for n, each in inspect.getmembers(of, kind) if not n.startswith("_") and hasattr(also, n))


@pytest.mark.parametrize("name", shared(torch.nn, tt.nn, inspect.isclass))
def test_layers(name):
    want = getattr(torch.nn, name).__init__
    if takes_anything(want):
        pytest.skip("PyTorch's takes any arguments")
    if name == "Hardtanh":  # without the two that it has warned of for years
        assert described(tt.nn.Hardtanh.__init__) == described(want)[:4]
    else:
        assert described(getattr(tt.nn, name).__init__) == described(want)


@pytest.mark.parametrize("name", shared(torch.nn.functional, tt.nn.functional, inspect.isfunction))
def test_functions(name):
    want, found = getattr(torch.nn.functional, name), getattr(tt.nn.functional, name)
    if takes_anything(want) or takes_anything(found):
        pytest.skip("overloads, resolved by their schemas")
    names = [(n, default) for n, _, default in described(found)]
    expected = [(n, default) for n, _, default in described(want)]
    assert names[: len(expected)] == expected
    assert names[len(expected) :] == ([("out", None)] if name in KEYWORDS_OF_FUNCTIONS else [])
