"""A program as a function of its inputs, and what a call of it gives."""

import itertools
import linecache
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import triten as tt

from .execution import Look, array, look

_numbers = itertools.count()


@dataclass
class Called:
    """Record of a call.

    Attributes:
        error: The exception's class and message, if the call raised.
        looks: The results and the arguments after the call, by name.
        shared: Names of results and arguments that share memory.
        gradients: Gradients of the results' sum with respect to each argument.
    """

    error: tuple[str, str] | None = None
    looks: dict[str, Look] = field(default_factory=dict)
    shared: list[list[str]] = field(default_factory=list)
    gradients: dict[str, np.ndarray | str | None] = field(default_factory=dict)


@dataclass
class Function:
    """A program whose inputs are arguments, and whose result is a dictionary of the variables."""

    inputs: list[str]
    call: Callable[..., dict[str, Any]]
    text: str

    @staticmethod
    def of(inputs: list[str], body: list[str]) -> "Function":
        """Return the program as a function. In-place writes to arguments that require grad raise, as in the program."""
        names = [text.partition(" = ")[0] for text in inputs]
        made = [name for text in body for name in assigned(text)]
        results = ", ".join(f"'{name}': {name}" for name in dict.fromkeys(made))
        lines = textwrap.indent("\n".join([*body, f"return {{{results}}}"]), "    ")
        text = f"def program({', '.join(names)}):\n{lines}\n"
        file = f"<program {next(_numbers)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        variables: dict[str, Any] = {"tt": tt, "__name__": "program"}
        exec(compile(text, file, "exec"), variables)
        return Function(inputs, variables["program"], text)

    def arguments(self) -> dict[str, Any]:
        """Return new inputs by name."""
        variables: dict[str, Any] = {"tt": tt}
        for text in self.inputs:
            exec(text, variables)
        return {text.partition(" = ")[0]: variables[text.partition(" = ")[0]] for text in self.inputs}


def assigned(text: str) -> list[str]:
    """Return the names that a statement assigns to."""
    code = compile(text, "<statement>", "exec")
    return [
        name for name in code.co_names if name[:1] == "v" and name[1:].isdigit() and _is_stored(text, name)
    ]


def _is_stored(text: str, name: str) -> bool:
    import ast

    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(ast.parse(text))
    )


def outcome(function: Function, call: Callable[..., Any]) -> Called:
    """Call with new inputs, and take gradients of what requires them."""
    called = Called()
    arguments = function.arguments()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            results = call(*arguments.values())
        except Exception as error:
            called.error = type(error).__name__, str(error)
            return called
        everything = {f"result {name}": value for name, value in results.items()} | arguments
        tensors = {name: value for name, value in everything.items() if isinstance(value, tt.Tensor)}
        called.looks = {name: look(value) for name, value in tensors.items()}
        groups: dict[int, list[str]] = {}
        for name, value in tensors.items():
            if value.numel():
                groups.setdefault(value.untyped_storage().data_ptr(), []).append(name)
        called.shared = [group for group in groups.values() if len(group) > 1]
        called.gradients = _gradients(results, arguments)
    return called


def _gradients(results: dict[str, Any], arguments: dict[str, Any]) -> dict[str, np.ndarray | str | None]:
    sources = {name: value for name, value in arguments.items() if value.requires_grad and value.is_leaf}
    try:
        wanted = [
            value.abs().sum() if value.is_complex() else value.sum()
            for value in results.values()
            if isinstance(value, tt.Tensor) and value.requires_grad
        ]
        if not wanted or not sources:
            return {}
        grads = tt.autograd.grad(
            sum(each.double() for each in wanted), list(sources.values()), allow_unused=True
        )
        # A GPU's faults are told when elements are read.
        return {
            name: None if grad is None else array(grad) for name, grad in zip(sources, grads, strict=True)
        }
    except RuntimeError as error:
        return {"error": str(error).partition(":")[0][:60]}
