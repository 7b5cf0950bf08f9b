"""Layers and functions take the arguments that PyTorch's take, under the same names and in the same order."""

import inspect

import pytest

import triten as tt

torch = pytest.importorskip("torch", reason="compares with PyTorch")

KEYWORDS_OF_FUNCTIONS = {"sigmoid", "tanh"}
"""Here the functions of the root, which take ``out=`` too."""


def described(function):
    """Return a function's parameters; default values that are functions are given by name."""
    parameters = inspect.signature(function).parameters.values()
    return [
        (p.name, p.kind, p.default.__name__ if inspect.isfunction(p.default) else p.default)
        for p in parameters
    ]


def takes_anything(function):
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    return bool(kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


def shared(of, also, kind):
    return sorted(n for n, each in inspect.getmembers(of, kind) if not n.startswith("_") and hasattr(also, n))


def says_what_it_takes(*functions):
    """Return True if no function takes arbitrary arguments; layers without arguments and overloads do."""
    return not any(takes_anything(function) for function in functions)


LAYERS = [
    n for n in shared(torch.nn, tt.nn, inspect.isclass) if says_what_it_takes(getattr(torch.nn, n).__init__)
]
FUNCTIONS = [
    n
    for n in shared(torch.nn.functional, tt.nn.functional, inspect.isfunction)
    if says_what_it_takes(getattr(torch.nn.functional, n), getattr(tt.nn.functional, n))
]


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    want = getattr(torch.nn, name).__init__
    if name == "Hardtanh":  # without the two that it has warned of for years
        assert described(tt.nn.Hardtanh.__init__) == described(want)[:4]
    else:
        assert described(getattr(tt.nn, name).__init__) == described(want)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    want, found = getattr(torch.nn.functional, name), getattr(tt.nn.functional, name)
    names = [(n, default) for n, _, default in described(found)]
    expected = [(n, default) for n, _, default in described(want)]
    assert names[: len(expected)] == expected
    assert names[len(expected) :] == ([("out", None)] if name in KEYWORDS_OF_FUNCTIONS else [])
