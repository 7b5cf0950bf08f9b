"""`tt.compiler.minify`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...dispatch.generated import functions as ops
from ...dispatch.layers.graph.graph import Graph
from ...dispatch.layers.pytree import tree_flatten
from ...runtime.tensor_impl import TensorImpl
from ..backends import Backend, find_backend, interpreted
from ..capture.recording import Recording, record
from ..frontend import get_default_backend
from ..optimized import OptimizedFunction
from ..optimized_module import OptimizedModule
from ..training import split
from .failures import Check, Failure, check_of, failure_of
from .program import Program, copied, seeded
from .reductions import minimized
from .source_text import source_text, with_sources


@dataclass(frozen=True)
class Minified:
    """Result of `minify`; `str()` is a file that runs, or says that nothing fails. It is false if nothing fails.

    Attributes:
        graph: The program that fails; None if there is none.
        inputs: Its inputs.
        failure: Its failure, a sentence.
    """

    graph: Graph | None
    inputs: tuple[Any, ...]
    failure: str | None
    text: str

    def __bool__(self) -> bool:
        return self.graph is not None

    def __str__(self) -> str:
        return self.text


def minify(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    check: Check | None = None,
    backend: str | Backend | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> Minified:
    """Minimize a program that fails when it is compiled, to a file with the operators that fail.

    The program is captured, forward and backward. Results, operators and sizes are removed as long as it fails in the
    same way. A program fails if compiling or running it raises, or if its results differ from those of its operators
    one by one.

    Args:
        fn: A function or a module, compiled or not. It is not run.
        args: Its arguments.
        kwargs: Its keyword arguments. Default: None.
        check: Function of a `tt.func.Graph` and its inputs that returns True if the program fails, instead of the
            check above. Default: None.
        backend: A backend's name, or a function. Default: the backend that `fn` was compiled with, or the default one.
        rtol: Relative tolerance of results. Default: 1e-4.
        atol: Absolute tolerance of results. Default: 1e-5.

    Returns:
        A `Minified`; print it.

    Raises:
        Unsupported: The function cannot be captured.

    Source: `torch._dynamo.repro.after_aot`, `functorch.compile.minifier`.

    Example:
        >>> import triten as tt
        >>> def fails_at_sin(graph, inputs):
        ...     if graph.find_nodes(op="call_function", target=tt.ops.aten.sin.default):
        ...         raise RuntimeError("no sines")
        ...     return tt.compiler.interpreted(graph)
        >>> def f(x):
        ...     return ((x @ x).relu().sin() + 1).exp().sum()
        >>> found = tt.compiler.minify(f, [tt.ones(8, 8)], backend=fails_at_sin)
        >>> found.failure
        'RuntimeError: no sines'
        >>> print(found.graph)
        graph(%args_0 : float32[1, 1]):
            %sin : float32[1, 1] = aten.sin(%args_0)
            return [%sin]
        >>> print(tt.compiler.minify(f, [tt.ones(8, 8)]))
        The program does not fail: compiled, it gives what its operators give one by one.
    """
    function, own = _uncompiled(fn)
    named = backend or own or get_default_backend()
    chosen = find_backend(named)
    leaves, spec = tree_flatten((tuple(args), dict(kwargs or {})))
    recording = record(function, leaves, spec)

    def failure(program: Program) -> Failure | None:
        return failure_of(program, chosen, rtol, atol)

    find = failure if check is None else check_of(check)
    for program in _programs(recording, [leaf for leaf in leaves if isinstance(leaf, TensorImpl)]):
        first = find(program)
        if first is not None:
            fails = _fails_like(first, find)
            small, sources = with_sources(minimized(program, fails), fails)
            last = find(small) or first
            text = source_text(small, sources, last, named, (rtol, atol))
            return Minified(small.graph, small.inputs, last.text, text)
    description = (
        "compiled, it gives what its operators give one by one." if check is None else "the check is false."
    )
    return Minified(None, (), None, f"The program does not fail: {description}")


def _fails_like(first: Failure, find: Callable[[Program], Failure | None]) -> Callable[[Program], bool]:
    """Return a function that checks if a smaller program fails in the same way as the first."""

    def fails(tried: Program) -> bool:
        observed = find(tried)
        return observed is not None and observed.kind == first.kind

    return fails


def _uncompiled(function: Any) -> tuple[Callable[..., Any], str | Backend | None]:
    """Return the original of a compiled function or module, and its backend."""
    if isinstance(function, OptimizedModule):
        return function._orig_mod, vars(function)["_compiled"].backend
    made = getattr(function, "_optimized", None)
    return (made.function, made.backend) if isinstance(made, OptimizedFunction) else (function, None)


def _programs(recording: Recording, tensors: Sequence[Any]) -> list[Program]:
    """Return the programs that are compiled of a recording: its graph, or forward and backward, with inputs."""
    held = recording.guards.hold() or ()
    inputs = tuple([copied(tensor) for tensor in (*tensors, *held)])
    if recording.gradients is None:
        return [Program(recording.graph, inputs)]
    parts = split(recording)
    forward = Program(parts.forward, inputs)
    with seeded(inputs):
        graphs = interpreted(parts.forward)(*forward.copied_inputs())[recording.results :]
        programs = [forward]
        for stage in parts.stages:
            specs = [node.val for node in stage.graph.find_nodes(op="placeholder")]
            arguments = [*(inputs[i] for i in stage.saved_inputs), *(copied(graphs[i]) for i in stage.saved)]
            arguments += [
                ops.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device=spec.device).normal_()
                for spec in specs[len(arguments) :]
            ]
            programs.append(Program(stage.graph, tuple(arguments)))
    return programs
