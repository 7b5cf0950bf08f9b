"""Keys of compiled kernels: everything that their code depends on, computed without importing Triton.

A kernel's digest covers its source, the source of each kernel it can reach, their module constants and their free
variables. The key adds types, constants, attributes, options and target. It identifies Triton by the hashes of its
compiler that the wheel records. It also covers the environment variables that affect Triton or ptxas.
"""

from __future__ import annotations

import ast
import functools
import glob
import hashlib
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from .lazy_kernel import GLUON, TRITON, LazyKernel, attributes_of, named_values
from .lazy_triton import StandIn, constexpr, dtype, module_if_imported

FORMAT = 2
"""Version of the key: increase it when the contents of a key or the compilation change."""

PREFIXES = (
    "ALLOW_LHS_TMEM",
    "DISABLE_LLVM",
    "DISABLE_MMA",
    "DISABLE_PTXAS",
    "LLVM_",
    "MLIR_",
    "PTXAS_",
    "TRITON_",
)
"""Prefixes of environment variables that Triton or its LLVM read."""

WITHOUT_EFFECT = re.compile(
    r"TRITON_(HOME|INTERPRET|STORE_BINARY_ONLY|BACKENDS_IN_TREE|\w*CACHE\w*|\w*AUTOTUNING|\w*_DIR|REDIS_\w+|PROTON_\w+"
    r"|LIBCUDA_PATH|CUDACRT_PATH|CUDART_PATH|CUOBJDUMP_PATH|NVDISASM_PATH|HIP_\w+)"
)
"""Variables that do not change a kernel's code."""

ASKING_FOR_COMPILATION = (
    "LLVM_ENABLE_TIMING",
    "LLVM_IR_ENABLE_DUMP",
    "MLIR_ENABLE_DIAGNOSTICS",
    "MLIR_ENABLE_DUMP",
    "MLIR_ENABLE_TIMING",
    "NVPTX_ENABLE_DUMP",
    "TRITON_ALLOW_NON_CONSTEXPR_GLOBALS",
    "TRITON_ALWAYS_COMPILE",
    "TRITON_DUMP_PTXAS_LOG",
    "TRITON_ENABLE_LLVM_DEBUG",
    "TRITON_FRONT_END_DEBUGGING",
    "TRITON_KERNEL_DUMP",
    "TRITON_KERNEL_OVERRIDE",
    "TRITON_REPRODUCER_PATH",
    "USE_IR_LOC",
)
"""Variables that inspect a compilation or feed it input that no key covers; kernels are then not stored."""

_OFF = ("", "0", "false", "off", "no", "n")


class NoKeyError(Exception):
    """Error: a kernel depends on a value that has no key; it is compiled each time."""


class KernelRequest(NamedTuple):
    """Request to a compiler.

    Args:
        kernel: A lazy kernel, or a `@triton.jit` function.
        signature, constexprs, divisible, capability: See `compile_kernel`.
        options: All of Triton's options that differ from Triton's defaults.
    """

    kernel: Any
    signature: Mapping[str, str]
    constexprs: Mapping[str, object]
    divisible: frozenset[str]
    capability: int
    options: Mapping[str, object]

    def described(self) -> tuple[Any, ...] | None:
        """Return the request as text and numbers; return None if it has no key."""
        signature, constants = self.signature, _Encoder()
        try:
            parameters = [
                (name, signature[name], name in self.divisible)
                if name in signature
                else (name, constants.value(self.constexprs[name]))
                for name in self.kernel.arg_names
            ]
            return (
                FORMAT,
                _digest_of(self.kernel),
                parameters,
                constants.digests(),
                sorted((name, constants.value(value)) for name, value in self.options.items()),
                self.capability,
            )
        except NoKeyError:
            return None


def kernel_key(request: KernelRequest, cuda: int = 0) -> str | None:
    """Return the key of the compiled kernel for a request; return None if it has no key.

    Args:
        request: The requested kernel.
        cuda: CUDA version of the driver; the major version decides which `ptxas` assembles (`assembler`).
    """
    compiler = triton_identity()
    if compiler is None or compilation_is_requested():
        return None
    described = request.described()
    if described is None:
        return None
    return hashlib.sha256(repr((*described, cuda // 1000, compiler, environment())).encode()).hexdigest()


def compilation_is_requested() -> bool:
    """Return True if the environment or a hook asks Triton to compile each kernel."""
    asked = any(os.environ.get(name, "").lower() not in _OFF for name in ASKING_FOR_COMPILATION)
    return asked or _stages_are_hooked()


def request_key(request: KernelRequest) -> str | None:
    """Return the key of a request, independent of the compiler; return None if it has no key.

    A process without Triton can thus find a kernel that was compiled elsewhere.
    """
    described = request.described()
    return None if described is None else hashlib.sha256(repr(described).encode()).hexdigest()


def digest(kernel: Any, code_only: bool = False) -> str:
    """Return a new hash of a kernel's source and of everything that it reaches. Raise NoKeyError if there is none.

    Args:
        kernel: A lazy kernel, or a `@triton.jit` function.
        code_only: If True, ignore what does not change the machine code's speed: comments, docstrings, layout, line
            numbers, and names (`Names`). Default: False, since a compiled kernel contains line numbers.
    """
    encoder = _Encoder(code_only)
    encoder.value(kernel)
    return encoder.hashed()


def code_of(source: str) -> ast.FunctionDef:
    """Return a function's tree without comments, docstrings and layout."""
    tree = ast.parse(textwrap.dedent(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    return function


class Names:
    """Names of a kernel that its machine code does not contain, each replaced by a number.

    These are the function's own name, its local variables, the globals that are kernels or constants, and the
    parameters of a kernel that the host launches. Parameters of other kernels stay, since callers may pass them by
    keyword. Numbers follow the order of first appearance, so that two kernels have the same text if and only if
    they differ in such names alone. ``%`` is in no name of Python.

    Args:
        function: The kernel's tree, which `renamed` changes.
        is_root: True for a kernel that the host launches.
    """

    def __init__(self, function: ast.FunctionDef, is_root: bool) -> None:
        self._function = function
        own = function.args
        parameters = [each.arg for each in (*own.posonlyargs, *own.args, *own.kwonlyargs)]
        stored = [
            node.id
            for node in ast.walk(function)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        ]
        self._new: dict[str, str] = {}
        if is_root:
            self._new |= {name: f"%p{number}" for number, name in enumerate(parameters)}
        local = (name for name in dict.fromkeys(stored) if name not in parameters)
        self._new |= {name: f"%{number}" for number, name in enumerate(local)}
        self._local = {*parameters, *stored}

    @functools.cached_property
    def text(self) -> str:
        """The function's text with its own names, before `renamed`."""
        return ast.unparse(self._function)

    def globals_in_order(self, reached: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield the names and values of globals in the order of their first appearance in the code."""
        loaded = (node.id for node in ast.walk(self._function) if isinstance(node, ast.Name))
        for name in dict.fromkeys(loaded):
            if name in reached and name not in self._local:
                yield name, reached[name]

    def number(self, name: str) -> str:
        """Give a global a number; return its new name."""
        return self._new.setdefault(name, f"%g{len(self._new)}")

    def renamed(self) -> str:
        """Return the function's text with the new names."""
        self._function.name = "%f"
        for node in ast.walk(self._function):
            if isinstance(node, ast.Name):
                node.id = self._new.get(node.id, node.id)
        for each in (
            *self._function.args.posonlyargs,
            *self._function.args.args,
            *self._function.args.kwonlyargs,
        ):
            each.arg = self._new.get(each.arg, each.arg)
        return ast.unparse(self._function)


def _digest_of(kernel: Any) -> str:
    # Globals of a user's kernel may change; a lazy kernel caches the hash with the values that it reached.
    return kernel.cache_key if isinstance(kernel, LazyKernel) else digest(kernel)


class _Encoder:
    """Encoder of values as nested tuples of text; kernels are numbered in the order of discovery."""

    def __init__(self, code_only: bool = False) -> None:
        self._code_only = code_only
        self._kernels: list[Any] = []
        self._numbers: dict[int, int] = {}

    def hashed(self) -> str:
        """Return the hash of every kernel found so far, and of those that they reach."""
        whole = hashlib.sha256()
        for kernel in self._kernels:  # grows during the loop: describing a kernel finds others
            whole.update(repr(self._description(kernel)).encode())
        return whole.hexdigest()

    def digests(self) -> list[str]:
        """Return the digest of every kernel found so far."""
        return [_digest_of(kernel) for kernel in self._kernels]

    def value(self, value: Any) -> tuple[Any, ...]:
        """Encode a constant, a kernel, or a part of Triton. Raise NoKeyError for anything else."""
        encoded = self._known(value)
        if encoded is None:
            raise NoKeyError(f"a {type(value).__name__} has no place in a key")
        return encoded

    def _known(self, value: Any) -> tuple[Any, ...] | None:
        if value is None or isinstance(value, bool | int | str):
            return type(value).__name__, str(value)
        if isinstance(value, float):
            return "float", value.hex()
        if isinstance(value, tuple | list):
            return type(value).__qualname__, [self.value(item) for item in value]
        if isinstance(value, dtype):
            return "dtype", value.name
        if isinstance(value, constexpr):
            return "constexpr", self.value(value.value)
        if isinstance(value, LazyKernel):
            return self._kernel(value)
        if isinstance(value, StandIn):
            return "module", value.__name__
        if value is constexpr or value is dtype:
            return "triton", value.__name__
        return self._known_to_triton(value)

    def _known_to_triton(self, value: Any) -> tuple[Any, ...] | None:
        """Encode objects of the real Triton like `_known`; without an import of Triton there are none."""
        core, jit = module_if_imported("triton.language.core"), module_if_imported("triton.runtime.jit")
        if core is None or jit is None:
            return None
        if isinstance(value, core.constexpr):
            return "constexpr", self.value(value.value)
        if isinstance(value, core.base_type):
            return "dtype", str(value)
        if isinstance(value, ModuleType):
            return ("module", value.__name__) if _is_of_triton(value.__name__) else None
        if _is_of_triton(getattr(value, "__module__", None)):
            name = getattr(value, "__qualname__", None)
            return None if name is None else ("triton", value.__module__, name)
        return self._kernel(value) if isinstance(value, jit.JITCallable) else None

    def _kernel(self, kernel: Any) -> tuple[Any, ...]:
        number = self._numbers.setdefault(id(kernel), len(self._kernels))
        if number == len(self._kernels):
            self._kernels.append(kernel)
        return "kernel", number

    def _description(self, kernel: Any) -> tuple[Any, ...]:
        """Return a kernel's text, options and defaults, and the values of its names."""
        if isinstance(kernel, LazyKernel):
            source, reached, options = kernel.source, kernel.reached, kernel.kwargs
            language = kernel.language
        else:
            if not hasattr(kernel, "arg_names"):
                raise NoKeyError(f"{kernel.__name__} is any Python, run while a kernel is compiled")
            source, reached = kernel.src, named_values(kernel.fn, kernel.src)
            options = {"noinline": kernel.noinline, "debug": kernel.debug, "repr": kernel._repr}
            language = GLUON if getattr(kernel, "is_gluon", bool)() else TRITON
        fn = kernel.fn
        line = fn.__code__.co_firstlineno  # in the machine code, for profilers
        chosen = sorted((name, self.value(options.get(name))) for name in ("noinline", "debug", "repr"))
        defaults = self.value(fn.__defaults__)
        if self._code_only:
            names = Names(code_of(source), is_root=kernel is self._kernels[0])
            found = self._renamed_globals(names, reached)
            kept = [self.value(value) for value in (fn.__kwdefaults__ or {}).values()]
            return language, names.renamed(), chosen, defaults, kept, found
        return (
            language,
            source,
            line,
            chosen,
            defaults,
            sorted((name, self.value(value)) for name, value in (fn.__kwdefaults__ or {}).items()),
            [(name, *self._global(name, value, source)) for name, value in reached.items()],
        )

    def _renamed_globals(self, names: Names, reached: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the contributions of a kernel's globals; kernels and constants lose their names."""
        found = []
        for name, value in names.globals_in_order(reached):
            parts = tuple(self._global(name, value, "" if not isinstance(value, ModuleType) else names.text))
            is_value = (
                bool(parts) and not isinstance(value, ModuleType) and parts[0][0] not in ("module", "triton")
            )
            found.append((names.number(name) if is_value else name, *parts))
        return found

    def _global(self, name: str, value: Any, source: str) -> Iterator[Any]:
        """Yield the contribution of a global or free variable to a kernel: nothing, if Triton refuses it there."""
        if isinstance(value, ModuleType) and not _is_of_triton(value.__name__):
            for attribute, held in attributes_of(value, name, source).items():
                yield attribute, self.value(held)
        elif isinstance(value, type) and (
            hasattr(value, "__triton_aggregate__") or (issubclass(value, tuple) and hasattr(value, "_fields"))
        ):
            raise NoKeyError(f"class {name} has no place in a key")
        elif not isinstance(value, list | tuple):
            encoded = self._known(value)
            if encoded is not None:
                yield encoded
            elif hasattr(value, "__triton_builtin__"):
                raise NoKeyError(f"{name} is an extension of Triton's language")


def _is_of_triton(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == "triton"


def environment() -> list[tuple[str, str, list[tuple[int, int]]]]:
    """Return the variables that affect compilation, with size and time of the files that they name."""
    return [
        (name, value, _identities(value))
        for name, value in sorted(os.environ.items())
        if name.startswith(PREFIXES) and not WITHOUT_EFFECT.fullmatch(name)
    ]


def _identities(paths: str) -> list[tuple[int, int]]:
    identities = []
    for path in paths.split(os.pathsep) if os.sep in paths else ():
        try:
            status = os.stat(path)
        except OSError:
            continue
        identities.append((status.st_size, status.st_mtime_ns))
    return identities


def _stages_are_hooked() -> bool:
    knobs = module_if_imported("triton.knobs")
    return knobs is not None and getattr(knobs.runtime, "add_stages_inspection_hook", None) is not None


@functools.cache
def triton_identity() -> tuple[str, str] | None:
    """Return version and identity of the Triton that an import would load; return None if there is none.

    The identity is the hash of each file in the wheel's record, independent of the directory. For a Triton built in
    place, it is the size and time of its library.

    Example:
        >>> identity = triton_identity()
        >>> identity is None or identity[0].startswith("3.")
        True
    """
    folder = _folder_of_triton()
    if folder is None:
        return None
    try:
        text = (folder / "__init__.py").read_text(encoding="utf-8")
    except OSError:  # in an archive
        return None
    version = re.search(r"^__version__ = ['\"](.+?)['\"]", text, re.MULTILINE)
    name = version[1] if version else ""
    records = glob.glob(f"{glob.escape(str(folder.parent))}/*triton*-{glob.escape(name)}.dist-info/RECORD")
    if len(records) == 1:
        with open(records[0], encoding="utf-8") as file:
            hashes = [line for line in file if line.startswith("triton/") and ",sha256=" in line]
        if any(line.startswith("triton/_C/libtriton") for line in hashes):
            compiled = "".join(sorted(line for line in hashes if ".pyc," not in line))
            return name, hashlib.sha256(compiled.encode()).hexdigest()
    libraries = sorted(glob.glob(f"{glob.escape(str(folder))}/_C/libtriton*"))
    return name, repr([_identities(library) for library in libraries])


def _folder_of_triton() -> Path | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else find("triton", None)
        if spec is not None:
            return None if spec.origin is None else Path(spec.origin).parent
    return None
