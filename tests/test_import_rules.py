"""Inside the package every import is relative and points to a lower layer, including imports in functions.

The floors, lowest first, are those of `FLOORS`:

runtime < dispatch < cpu_fallback, triton_kernels < triten < compiler < distributed < triten's namespaces of all < perf

Modules of other packages are imported by ``from package import module``. An interrupt of ``import
package.module`` may permanently leave the package without that attribute.

Inside `dispatch` and `runtime` the order is that of `ROOMS`, lowest first; `UPWARDS` lists the exceptions.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cache

import pytest

from triten.tests.shared.package_files import module_name, package_files, path_of

FLOORS = (
    ("runtime",),
    ("dispatch",),
    ("cpu_fallback", "triton_kernels"),  # neither knows the other
    ("",),  # layers, optimizers, files and tools: all of `triten/` but what is named below
    ("compiler",),
    ("distributed",),
    # What has names of all floors: the package itself, PyTorch's names for the compiler, and data parallelism.
    (
        *(
            "__init__",
            "_public",
            "_C",
            "_dynamo",
            "_inductor",
            "_subclasses",
            "as_torch",
            "export",
            "nn.parallel",
        ),
        *("utils.data.distributed", "_torch_modules", "_torch_names"),
    ),
    ("perf",),
)
"""The modules or folders of each floor; the longest name that fits a module is its place."""
KERNELS = 2

ROOMS = {
    "dispatch": (
        ("schema", "scalars", "generated.kernel_index"),  # data and text; nothing is called
        ("core",),  # operators, their kernels and keys, plans in front of them
        (
            "generated.functions",
            "generated.methods",
            "tensor",
            "tensor_meta",
        ),  # public calls, which know packets only
        ("iterator",),
        ("tensor_data",),
        ("structured",),  # stubs, allocation, what meta functions are built of
        ("autograd",),  # nodes, the engine, recording
        ("plans",),
        ("structured.meta",),
        ("random",),
        ("autograd.formulas",),
        ("composite",),
        ("generated.autograd", "generated.forward"),
        ("layers",),
        ("custom_ops",),
        ("generated.registrations",),
        ("methods",),
        ("functions",),
        ("",),  # `load`, which makes all of it known
        ("codegen", "coverage", "generated"),  # tools
    ),
    "runtime": (
        ("",),
        ("cpu",),  # object code of the CPU, as `cuda.triton` has a GPU's
        (
            *("cuda.provider", "cuda.driver", "cuda.capture", "cuda.device_properties", "cuda.fourier"),
            *("cuda.solver", "cuda.machine_code", "cuda.tensor_map", "cuda.device_guard", "cuda.devices"),
            *("cuda.event", "cuda.stream", "cuda.sync_debug", "cuda.graph_capture", "cuda.faults"),
        ),  # the driver's interface, and what needs no memory
        ("cuda.memory",),
        ("cuda",),
        ("cuda.triton",),
        ("cuda.cupy",),
        ("cuda.simulated",),
        ("cuda.interpreter", "cuda.emulator"),
        ("cuda.choose", "cuda.__init__"),
    ),
}
"""The modules or folders of each layer inside a folder; the longest name that fits a module is its place."""

UPWARDS = {
    ("nn.__init__", "nn.parallel"): "a name of the namespace",
    ("nn.__init__", "nn.parallel.data_parallel"): "the same",
    ("utils.data.__init__", "utils.data.distributed"): "the same",
    ("nn.modules.module", "compiler"): "`Module.compile`",
    ("nn.modules.batchnorm", "distributed.process_group"): "`SyncBatchNorm` over a group of processes",
    ("nn.modules.sync_batch_norm", "distributed.collectives"): "its reductions",
    (
        "distributed.algorithms.ddp_comm_hooks.__init__",
        "nn.parallel.distributed",
    ): "hooks register with DDP's module",
    ("distributed.checkpoint.state_dict_names", "nn.parallel.distributed"): "names without DDP's wrapper",
    ("distributed.pipelining.stage", "nn.parallel"): "a stage whose module is data parallel",
    ("utils.dask", "_public"): "the namespace that Dask is told of",
    ("utils.einops.backend", "_public"): "the namespace that einops is told of",
    ("utils.einops.layers", "_public"): "the same",
    ("utils.opt_einsum", "_public"): "the namespace that opt_einsum is told of",
    ("runtime.allocator", "runtime.cuda.memory.caching_allocator"): "CUDA's allocator is loaded at first use",
    ("runtime.device_guard", "runtime.cuda.driver"): "so is its driver, for the current device",
    ("dispatch.core.overload_packet", "dispatch.tensor_data"): "`tensor == ndarray` makes the array a tensor",
    ("dispatch.core.dispatched_overload", "dispatch.iterator.type_promotion"): "tensors of `where`'s numbers",
    ("dispatch.core.version_tracking", "dispatch.autograd.creation"): "custom operators that return views",
    ("dispatch.tensor_data", "dispatch.layers.python_key"): "the operator that a mode sees for new data",
    ("dispatch.tensor_meta", "dispatch.layers.overrides.subclass_attributes"): "made with the first subclass",
    ("dispatch.autograd.gradients", "dispatch.structured.meta.factories"): "the plan of a gradient of ones",
    ("dispatch.autograd.gradients", "dispatch.layers.named.key"): "gradients of named tensors have no names",
    ("dispatch.autograd.gradients", "dispatch.layers.old_vmap"): "`is_grads_batched`",
    (
        "dispatch.autograd.view_history",
        "dispatch.autograd.formulas.views",
    ): "a view's gradient is that of `as_strided`, whose formula it is",
    ("dispatch.autograd.function", "dispatch.layers.named.key"): "saved tensors are given back without names",
    ("dispatch.autograd.function", "dispatch.layers.batching.function"): "a Function under vmap",
    (
        "dispatch.autograd.forward_mode",
        "dispatch.generated.forward",
    ): "formulas, loaded with the first dual tensor",
    (
        "dispatch.plans.writing",
        "dispatch.structured.meta.copy",
    ): "copies through a device that has no copy kernel",
    ("dispatch.composite.dimnames", "dispatch.layers.named.key"): "operators on names themselves",
    ("dispatch.layers.batching.custom", "dispatch.custom_ops.custom_op"): "rules that users register",
    (
        "dispatch.methods.tensor_types",
        "dispatch.functions.sparse",
    ): "`tt.sparse.FloatTensor(indices, values)`",
    ("dispatch.layers.named.rules", "dispatch.methods.subscripts"): "the codes of indices in a subscript",
}
"""Imports that run upwards, by module and target, with the reason: at most 15 between floors, 20 within one."""


def package_modules() -> list[str]:
    """Return the dotted names of all modules, from the files: `triten.runtime.device`."""
    return sorted(map(module_name, package_files()))


@cache
def known_modules() -> frozenset[str]:
    """Return every module's name; a package has its own name."""
    return frozenset(module.removesuffix(".__init__") for module in package_modules())


@cache
def floor_of(module: str) -> tuple[int, str]:
    """Return a module's floor and its part of the floor: the name in `FLOORS`.

    A name that is no module is one of its package's: `triten.zeros` belongs to `triten.__init__`.
    """
    modules = known_modules()
    if module not in modules and module.removesuffix(".__init__") not in modules:
        module = module.rpartition(".")[0]
    inside = module.partition(".")[2] or "__init__"
    fitting = [
        (len(place), floor, place)
        for floor, places in enumerate(FLOORS)
        for place in places
        if not place or f"{inside}.".startswith(f"{place}.")
    ]
    return max(fitting)[1:]


def short(module: str) -> str:
    return module.removeprefix("triten.")


@cache
def room_of(module: str) -> int:
    """Return the layer inside `dispatch` or `runtime` that a module belongs to."""
    folder, _, inside = module.removeprefix("triten.").partition(".")
    places = [(place, layer) for layer, places in enumerate(ROOMS[folder]) for place in places]
    fitting = [
        (len(place), layer) for place, layer in places if not place or f"{inside}.".startswith(f"{place}.")
    ]
    return max(fitting)[1]


def statements(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield nested statements, skipping expressions, which make up most of a file."""
    for node in nodes:
        yield node
        for field in ("body", "handlers", "cases", "orelse", "finalbody"):
            yield from statements(getattr(node, field, ()))


@cache
def import_statements(source: str) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return the imports of `source`, including those in functions and under TYPE_CHECKING."""
    return tuple(
        node for node in statements(ast.parse(source).body) if isinstance(node, ast.Import | ast.ImportFrom)
    )


def imported_modules(source: str, module: str) -> Iterator[tuple[int, str]]:
    """Return the line and absolute name of each import of `source`.

    `module` is the dotted name, ending in `.__init__` for a package.
    """
    package = module.split(".")[:-1]
    for node in import_statements(source):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif node.level == 0:
            yield node.lineno, node.module or ""
        else:
            base = package[: len(package) - node.level + 1]
            if not base:
                yield node.lineno, "." * node.level
            elif node.module:
                found = ".".join((*base, node.module))
                modules = known_modules()
                for alias in node.names:
                    inner = f"{found}.{alias.name}"
                    yield node.lineno, inner if inner in modules else found
            else:
                yield from ((node.lineno, ".".join((*base, alias.name))) for alias in node.names)


def violations(source: str, module: str) -> list[str]:
    """Return the violations in `source`, the text of `module`; empty if there are none."""
    layer, here = floor_of(module)
    absolute = {
        node.lineno for node in import_statements(source) if isinstance(node, ast.Import) or node.level == 0
    }
    found = []
    for line, target in imported_modules(source, module):
        if target.startswith("."):
            found.append(f"line {line}: a relative import out of the package")
        elif target.partition(".")[0] != "triten":
            continue
        elif line in absolute:
            found.append(f"line {line}: {target} is imported absolutely; write it relative")
        elif (short(module), short(target)) in UPWARDS:
            continue
        else:
            target_layer, there = floor_of(target)
            if target_layer > layer or (target_layer == layer == KERNELS and there != here):
                found.append(f"line {line}: {module} imports {target}, which is not below it")
            elif there == here and here in ROOMS and room_of(target) > room_of(module):
                found.append(f"line {line}: {module} imports {target}, which lies in a layer above")
    for node in import_statements(source):
        for alias in node.names if isinstance(node, ast.Import) else ():
            package, _, inner = alias.name.partition(".")
            if inner and alias.asname is None and package not in {*sys.stdlib_module_names, "triten"}:
                found.append(f"line {node.lineno}: import {alias.name} does not repeat after an interrupt")
    return found


@pytest.mark.parametrize("module", package_modules())
def test_imports_are_relative_and_run_downwards(module: str) -> None:
    assert violations(path_of(module).read_text(), module) == []


def test_the_exceptions_are_few_and_used() -> None:
    imports = {
        (short(module), short(target))
        for module in package_modules()
        for _, target in imported_modules(path_of(module).read_text(), module)
    }
    assert set(UPWARDS) - imports == set()
    across = [pair for pair in UPWARDS if floor_of(f"triten.{pair[0]}") != floor_of(f"triten.{pair[1]}")]
    assert len(across) <= 15 and len(UPWARDS) - len(across) <= 20


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("triten.dispatch.core.dispatcher", "def late():\n    from ..plans import writing"),
        ("triten.dispatch.structured.stub", "from ..tensor import Tensor\nfrom ..methods import attach"),
        ("triten.dispatch.composite.linalg", "from ..layers.vmap import vmap"),
        ("triten.runtime.cuda.driver", "def late():\n    from .cupy.driver import CuPyDriver"),
        ("triten.runtime.cuda.memory.cache", "from ..graph import CUDAGraph"),
        ("triten.runtime.storage", "from ..dispatch.core import operator"),
        ("triten.runtime.storage", "from .. import func"),
        ("triten.runtime.parallel", "def late():\n    from .cpu import task_pool"),
        ("triten.runtime.cpu.task_pool", "from ...cpu_fallback.blocks import block_indices"),
        ("triten.cpu_fallback.convolution.tiles", "def late():\n    from ...compiler.host import loops"),
        ("triten.runtime.storage", "def late():\n    from ..dispatch import core"),
        ("triten.runtime.__init__", "import triten.runtime.device"),
        ("triten.runtime.cuda.driver", "from ....other import name"),
        ("triten.dispatch.composite.nn", "from ... import nn"),
        ("triten.dispatch.composite.nn", "from ...cpu_fallback.sums import total"),
        ("triten.cpu_fallback.reduction.sums", "from ...triton_kernels import sums"),
        ("triten.triton_kernels.sums", "from ..cpu_fallback.sums import total"),
        ("triten.nn.functional", "from ..perf import overhead"),
        ("triten.nn.functional", "def late():\n    from ..compiler import optimized"),
        ("triten.nn.functional", "from .. import zeros"),
        ("triten.compiler.passes.cse", "from ...distributed import collectives"),
        ("triten.distributed.collectives", "from ..nn.parallel import distributed"),
        ("triten.func", "from triten.runtime.device import Device"),
        ("triten.runtime.lapack", "def late():\n    import scipy.linalg.lapack"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert len(violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "triten.runtime.cuda.driver",
            "from ..device import Device\nimport numpy as np\nfrom triton import jit",
        ),
        ("triten.dispatch.composite.nn", "from ..generated import functions\nfrom ...runtime import device"),
        (
            "triten.cpu_fallback.reduction.sums",
            "from . import pointwise\nfrom ..dispatch.iterator import config",
        ),
        ("triten.__init__", "from . import nn\nfrom .dispatch.generated import functions"),
        ("triten.nn.functional", "from .. import func\nfrom ..runtime.device import Device"),
        ("triten.perf.overhead", "from ..nn import functional"),
        ("triten.distributed.collectives", "from ..compiler import optimized\nfrom ..nn import functional"),
        ("triten.nn.parallel.distributed", "from ...distributed import collectives"),
        (
            "triten.runtime.lapack",
            "def late():\n    from scipy.linalg import lapack\n    import scipy.special as s",
        ),
        ("triten.runtime.lapack", "import importlib.util"),
        ("triten.cpu_fallback.convolution.taps_loop", "from ...runtime.cpu.object_code import loop_function"),
    ],
)
def test_an_allowed_import_is_not_found(module: str, source: str) -> None:
    assert violations(source, module) == []
