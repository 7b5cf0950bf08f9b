"""Source file of a program: its inputs by shape, dtype and seed if possible, its steps, and the failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.layers.graph.text import literal
from ...dispatch.layers.graph.traced import package
from ..backends import BUILT_IN, Backend
from .failures import Failure
from .program import SEED, Program

TEXT = '''"""{what}
"""

import triten as tt


def inputs():
    return [
{inputs}    ]


{function}

{run}'''

COMPARE = """tt.manual_seed({seed})
expected = f(*inputs())
tt.manual_seed({seed})
found = tt.compile(f, backend={backend}, fullgraph=True)(*inputs())
for a, b in zip(found, expected):
    print(tt.allclose(a, b, {rtol}, {atol}, equal_nan=True), a, b)
"""

CALL = """tt.manual_seed({seed})
print(f(*inputs()))
"""


def with_sources(program: Program, fails: Callable[[Program], bool]) -> tuple[Program, list[str]]:
    """Return a failing program, and an expression for each of its inputs: random numbers, if it fails with those."""
    sources = [values_of(tensor) for tensor in program.inputs]
    inputs = [made_by(source) for source in sources]
    for i, tensor in enumerate(program.inputs):
        source = random_numbers(tensor, i)
        if source is not None:
            tried = Program(program.graph, (*inputs[:i], made_by(source), *inputs[i + 1 :]))
            if fails(tried):
                inputs[i], sources[i] = tried.inputs[i], source
    return Program(program.graph, tuple(inputs)), sources


def made_by(source: str) -> Any:
    """Evaluate an expression over ``tt``."""
    return eval(source, {"tt": package()})


def random_numbers(tensor: Any, seed: int) -> str | None:
    """Return an expression for random numbers with a tensor's metadata; integers are in its range."""
    spec = tensor._spec
    where = f"dtype=tt.{spec.dtype.name}" + (
        "" if spec.device.type == "cpu" else f", device={str(spec.device)!r}"
    )
    sizes = list(spec.sizes)
    generator = f"generator=tt.Generator().manual_seed({seed})"
    if not spec.numel:
        made = f"tt.empty({sizes}, {where})"
    elif spec.dtype.is_floating_point:
        made = f"tt.randn({sizes}, {generator}).to({where})"
    elif spec.dtype.is_integral or spec.dtype.name == "bool":
        numbers = tensor.detach().cpu().flatten().tolist()
        made = f"tt.randint({int(min(numbers))}, {int(max(numbers)) + 1}, {sizes}, {generator}).to({where})"
    else:
        return None
    return _laid_out(made, spec)


def values_of(tensor: Any) -> str:
    """Return an expression for a tensor's own elements."""
    spec = tensor._spec
    numbers = ", ".join(literal(number) for number in tensor.detach().cpu().flatten().tolist())
    where = f"dtype=tt.{spec.dtype.name}" + (
        "" if spec.device.type == "cpu" else f", device={str(spec.device)!r}"
    )
    return _laid_out(f"tt.tensor([{numbers}], {where}).reshape({list(spec.sizes)})", spec)


def _laid_out(source: str, spec: Any) -> str:
    if spec.is_contiguous or spec.overlaps:
        return source
    where = f"dtype=tt.{spec.dtype.name}, device={str(spec.device)!r}"
    return f"tt.empty_strided({list(spec.sizes)}, {list(spec.strides)}, {where}).copy_({source})"


def source_text(
    program: Program,
    sources: list[str],
    failure: Failure,
    backend: str | Backend,
    tolerances: tuple[float, float],
) -> str:
    """Return the text of the file."""
    head, _, body = program.graph.python_code.partition("\n")
    head = head.replace("def forward(self, ", "def f(").replace("def forward(self)", "def f()")
    run = CALL.format(seed=SEED)
    description = f"{failure.text[0].upper()}{failure.text[1:]}."
    if failure.kind != "check":
        backend_name = getattr(backend, "__name__", "")
        shown = (
            repr(backend)
            if isinstance(backend, str)
            else backend_name
            if backend_name.isidentifier()
            else "backend"
        )
        if backend not in BUILT_IN:
            description += f"\n\nImport the backend, {shown}, before it is used here."
        run = COMPARE.format(seed=SEED, backend=shown, rtol=tolerances[0], atol=tolerances[1])
    lines = "".join(f"        {source},\n" for source in sources)
    return TEXT.format(
        what=description.replace('"""', "'''"), inputs=lines, function=f"{head}\n{body}", run=run
    )
