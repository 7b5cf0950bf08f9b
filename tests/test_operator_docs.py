"""Every public function and method documents its computation, arguments and result, with an example that
runs.

The documentation of operators is in `dispatch/native_functions/`; hand-written functions have docstrings.
`python -m triten.dispatch.codegen.check_docs` says what to write.
"""

import doctest
import inspect
import operator
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

import triten as tt
from triten.dispatch.codegen.__main__ import DISPATCH
from triten.dispatch.codegen.check_docs import is_public
from triten.dispatch.codegen.functions import signatures_of
from triten.dispatch.codegen.load import load_functions

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SPACES = {
    "tt": tt,
    "tt.linalg": tt.linalg,
    "tt.fft": tt.fft,
    "tt.special": tt.special,
    "tt.nn.functional": tt.nn.functional,
    "tt.signal.windows": tt.signal.windows,
}
UNDOCUMENTED_PARAMETERS = {"self", "cls", "more", "sizes"}
"""Of generated functions: positions for deprecated orders, and sizes given one by one, which `size` describes."""


def public_values() -> Iterator[tuple[str, Any]]:
    for label, space in SPACES.items():
        for name in space.__all__:
            value = getattr(space, name)
            if not name.startswith("_") and callable(value) and not isinstance(value, ModuleType):
                yield f"{label}.{name}", value


def tensor_attributes() -> Iterator[tuple[str, Any]]:
    for name in dir(tt.Tensor):
        if not name.startswith("_"):
            value = inspect.getattr_static(tt.Tensor, name)
            yield f"tt.Tensor.{name}", getattr(value, "__func__", value)


def functions() -> dict[str, Callable[..., Any]]:
    """Return the public functions and methods by name, each under one name of a namespace."""
    found: dict[str, Callable[..., Any]] = {}
    for name, value in [*public_values(), *tensor_attributes()]:
        if callable(value) and not inspect.isclass(value) and (value not in found.values()):
            found[name] = value
    return found


FUNCTIONS = functions()
DESCRIBED = [(name, value) for name, value in public_values() if inspect.isclass(value)]
DESCRIBED += [(name, value) for name, value in tensor_attributes() if isinstance(value, property)]


def described_parameters(text: str) -> set[str]:
    """Return the names in a docstring's section ``Args:``."""
    section = re.search(r"^Args:\n((?:(?:    .*)?(?:\n|$))*)", text, re.MULTILINE)
    entries = re.findall(
        r"^    (\*{0,2}\w[\w, *]*)(?: \([^)]*\))?: ", section[1] if section else "", re.MULTILINE
    )
    return {name.strip(" *") for entry in entries for name in entry.split(",")}


def taken_parameters(function: Callable[..., Any]) -> set[str]:
    """Return a function's parameter names; empty if it takes ``*args`` and ``**kwargs``."""
    parameters = inspect.signature(function).parameters
    if {"args", "kwargs"} <= set(parameters):
        return set()
    return {name for name in parameters if name not in UNDOCUMENTED_PARAMETERS and not name.startswith("_")}


def functional_text(text: str) -> str:
    """Return the docstring of the functional form that an in-place form's docstring names."""
    named = re.match(r"In-place version of `tt\.([\w.]+)` ", text)
    return (inspect.getdoc(operator.attrgetter(named[1])(tt)) or "") if named else ""


def lacks(function: Callable[..., Any]) -> list[str]:
    """Return what a docstring lacks; that of an in-place form may leave it to its functional form's."""
    text = inspect.getdoc(function) or ""
    summary = text.partition("\n\n")[0]
    text += f"\n\n{functional_text(text)}"
    found = [] if summary.endswith(".") and ") -> " not in summary else ["a summary that is a sentence"]
    found += [
        f"the argument {name}" for name in sorted(taken_parameters(function) - described_parameters(text))
    ]
    gives_nothing = inspect.signature(function).return_annotation in (None, "None")
    if "Returns:\n" not in text and not gives_nothing:
        found.append("Returns")
    return found if ">>> " in (inspect.getdoc(function) or "") else [*found, "an example"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_documentation_is_whole(name: str) -> None:
    assert lacks(FUNCTIONS[name]) == []


@pytest.mark.parametrize(("name", "value"), [pytest.param(*each, id=each[0]) for each in DESCRIBED])
def test_classes_and_properties_have_a_sentence(name: str, value: Any) -> None:
    assert (inspect.getdoc(value) or "").partition("\n\n")[0].rstrip().endswith((".", ":"))


def examples() -> dict[str, str]:
    """Return each docstring once: methods share those of functions."""
    by_text = {inspect.getdoc(function) or "": name for name, function in reversed(FUNCTIONS.items())}
    return {name: text for text, name in by_text.items() if ">>> " in text}


EXAMPLES = examples()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_run(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, 0)
    reports: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=reports.append)
    assert not result.failed, "".join(reports)


def test_the_generator_knows_which_names_are_public() -> None:
    signatures = signatures_of(load_functions(DISPATCH / "native_functions"))
    generated = {
        value.__name__
        for value in (*(v for _, v in public_values()), *FUNCTIONS.values())
        if ".generated." in str(getattr(value, "__module__", ""))
    }
    assert {name for name, signature in signatures.items() if is_public(signature)} == generated


WITH_SOURCES = [
    name
    for name, function in FUNCTIONS.items()
    # PyTorch 2.13 has no names of dimensions any more.
    if not str(getattr(function, "__module__", "")).endswith("methods.names")
]


@pytest.mark.parametrize("name", WITH_SOURCES)
def test_sources_are_names_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    summary = (inspect.getdoc(FUNCTIONS[name]) or "").partition("\n\n")[0]
    for source in re.findall(r"`(torch\.[\w.]+)`", summary):
        found = torch
        for part in source.split(".")[1:]:
            found = getattr(found, part)


def test_methods_share_the_text_of_functions() -> None:
    assert tt.Tensor.softmax.__doc__ is tt.softmax.__doc__
    assert type(tt.softmax.__doc__) is str
    assert tt.Tensor.relu_.__doc__.startswith("In-place version of `tt.relu` (`torch.Tensor.relu_`).\n")
