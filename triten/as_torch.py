"""Runner of unchanged PyTorch programs: in this process, `import torch` imports triten.

On the command line, as with python itself::

    python -m triten.as_torch train.py --epochs 3
    python -m triten.as_torch -m package.train --epochs 3
    python -m triten.as_torch -c "import torch; print(torch.ones(2))"

Or in a program, before anything imports torch::

    import triten.as_torch
    import torch.nn as nn  # is triten.nn

Or once for all programs of an environment, such as pytest, Jupyter and servers::

    python -m triten.as_torch --install
    python -m triten.as_torch --uninstall

Every ``torch.X`` is the very module ``triten.X``; the package's ``__name__`` is "torch". PyTorch's names that
contain "torch", such as ``__torch_function__`` and `TorchDispatchMode`, exist beside triten's own.
``torch.__version__`` and the installed version of "torch" are those of the PyTorch whose behavior is followed. Random
numbers on the CPU are PyTorch's too (`tt.random.set_cpu_engine`). Processes that this process spawns, by
`multiprocessing` or joblib, behave the same.

Raises:
    ImportError: PyTorch has been imported already.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import zipfile
from collections.abc import Iterable, Sequence
from functools import partial
from types import CodeType, ModuleType
from typing import Any, NoReturn

__all__ = ["TORCH_VERSION", "main"]

_OURS = __name__.rpartition(".")[0] if __name__ != "__main__" else __package__ or "triten"
_THEIRS = "torch"
_PACKAGES = {_THEIRS: _OURS, "functorch": f"{_OURS}.functorch"}
"""The top-level packages that come with PyTorch, and the packages here that stand for them."""

TORCH_VERSION = "2.13.0"
"""The PyTorch whose behavior is followed."""


def _own_name(name: str) -> str | None:
    """Return triten's name for one of PyTorch's modules; None for other modules."""
    head, dot, rest = name.partition(".")
    own = _PACKAGES.get(head)
    return None if own is None else f"{own}{dot}{rest}"


def _share_loaded() -> None:
    """Enter every module that is loaded under PyTorch's name too.

    Importing one under its second name would bind it in its package again, where a function may have its name.
    """
    prefix = f"{_OURS}."
    for name, module in list(sys.modules.items()):
        if name.startswith(prefix):
            sys.modules.setdefault(f"{_THEIRS}.{name[len(prefix) :]}", module)


class _Loader(importlib.abc.Loader):
    """Loads a module under its name here, and enters the same one under PyTorch's."""

    def __init__(self, own_name: str) -> None:
        self.own_name = own_name

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leave it to Python: `exec_module` exchanges the module for ours, which stays as it is."""

    def exec_module(self, module: ModuleType) -> None:
        """Exchange the new, empty module for ours."""
        ours = importlib.import_module(self.own_name)
        del sys.modules[module.__name__]
        _share_loaded()
        sys.modules[module.__name__] = ours

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the module's code, for ``python -m``."""
        spec = importlib.util.find_spec(self.own_name)
        loader: Any = spec and spec.loader
        return loader.get_code(self.own_name) if loader else None


class _Finder(importlib.abc.MetaPathFinder):
    """Finds ``torch.X`` as ``triten.X``, and PyTorch among the installed distributions."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        own_name = _own_name(fullname)
        if own_name is None:
            return None
        own_spec = _spec_of(own_name)
        if own_spec is None:
            # `importlib.util.find_spec`, which only queries whether the module exists, gets None.
            if sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":
                raise ModuleNotFoundError(
                    f"No module named {fullname!r}: torch is {_OURS} in this process, which has no {own_name!r}",
                    name=fullname,
                )
            return None
        locations = own_spec.submodule_search_locations
        spec = importlib.machinery.ModuleSpec(
            fullname, _Loader(own_name), origin=own_spec.origin, is_package=locations is not None
        )
        if locations is not None:
            spec.submodule_search_locations = list(locations)
        return spec

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        """PyTorch, for `importlib.metadata`, which asks by name or for all."""
        name = getattr(context, "name", None)
        if name not in (None, _THEIRS):
            return []
        from importlib.metadata import Distribution

        from . import _torch_distribution

        on_disk = _torch_distribution.installed()
        if on_disk is not None and _torch_distribution.is_local(on_disk):
            return []  # Python's own finder finds it

        class Named(Distribution):
            """A distribution that has a name and a version, and no files."""

            def read_text(self, filename: str) -> str | None:
                header = (
                    f"Metadata-Version: 2.1\nName: {_THEIRS}\nVersion: {sys.modules[_THEIRS].__version__}\n"
                )
                return {"METADATA": header, "top_level.txt": _THEIRS}.get(filename)

            def locate_file(self, path: str | os.PathLike[str]) -> Any:
                from pathlib import Path

                return Path(__file__).parent / path

        return [Named()]


def _spec_of(own_name: str) -> importlib.machinery.ModuleSpec | None:
    """Return the spec of a triten module; None if the module, or a package above it, does not exist."""
    loaded = sys.modules.get(own_name)
    if loaded is not None and loaded.__spec__ is None:
        return importlib.machinery.ModuleSpec(own_name, None)
    try:
        return importlib.util.find_spec(own_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{own_name}.".startswith(f"{error.name}."):
            return None
        raise


def _install() -> None:
    """Make `import torch` import this package from now on. A second call changes nothing."""
    root: Any = sys.modules[_OURS]
    present = sys.modules.get(_THEIRS)
    if present is root:
        return
    if present is not None:
        where = getattr(present, "__file__", None) or "no file"
        raise ImportError(
            f"{_OURS}.as_torch: torch is imported already, from {where}. Import {_OURS}.as_torch before anything that "
            f"imports torch, or run the program with `python -m {_OURS}.as_torch`",
            name=_THEIRS,
        )
    from . import _torch_modules, _torch_names
    from .random import set_cpu_engine
    from .runtime.lazy_import import when_imported
    from .torch_version import TorchVersion

    own_version = root.__version__.replace("+", ".")  # a version has a single plus sign
    _torch_names.add()
    _torch_modules.install()
    root.__version__ = root.version.__version__ = TorchVersion(f"{TORCH_VERSION}+{_OURS}.{own_version}")
    sys.modules[_THEIRS] = vars(root)[_THEIRS] = root  # PyTorch's package has itself as an attribute
    root.__name__ = _THEIRS  # packages compare it
    _share_loaded()
    sys.meta_path.insert(0, _Finder())
    for name in ("distributions", "optim", "optim.lr_scheduler"):
        when_imported(f"{_OURS}.{name}", partial(_fill, name))
    set_cpu_engine("mt19937")
    _pass_on_to_spawned_processes()


def _fill(module: str) -> None:
    """Load all public names of a module whose dictionary packages such as Pyro go through."""
    loaded = sys.modules[f"{_OURS}.{module}"]
    for name in loaded.__all__:
        getattr(loaded, name)


class _ImportedOnArrival:
    """An object whose pickle imports this module where it is read."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return importlib.import_module, (f"{_OURS}.as_torch",)


def _pass_on_to_spawned_processes() -> None:
    """Have a process that `multiprocessing` spawns import this module before the program's own."""
    from multiprocessing import spawn

    from .runtime.lazy_import import when_imported

    def extend(name: str) -> None:
        module: Any = sys.modules[name]
        prepared = module.get_preparation_data

        def get_preparation_data(*args: Any, **kwargs: Any) -> dict[str, Any]:
            return {f"{_OURS}.as_torch": _ImportedOnArrival(), **prepared(*args, **kwargs)}

        module.get_preparation_data = get_preparation_data

    extend(spawn.__name__)
    for name in ("joblib.externals.loky.backend.spawn", "loky.backend.spawn"):
        when_imported(name, partial(extend, name))


USAGE = f"""\
usage: python -m {_OURS}.as_torch SCRIPT [ARGUMENT ...]
       python -m {_OURS}.as_torch -m MODULE [ARGUMENT ...]
       python -m {_OURS}.as_torch -c CODE [ARGUMENT ...]
       python -m {_OURS}.as_torch --install | --uninstall

Run a program of PyTorch's: `import torch` imports {_OURS}.

--install writes a `torch` distribution into this environment, so that `import torch` imports {_OURS} in every
program there, and requirements such as torch>=2 are met. --uninstall removes it."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a script, a module or code as python itself would, with `import torch` importing triten.

    Args:
        arguments: those of the command line, by default.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    option = arguments[0] if arguments else None
    if option in ("-h", "--help"):
        print(USAGE)
        return
    if arguments in (["--install"], ["--uninstall"]):
        _change_environment(option == "--install")
        return
    needed = 2 if option in ("-m", "-c") else 1
    if len(arguments) < needed or (option is not None and option.startswith("-") and needed == 1):
        print(USAGE, file=sys.stderr)
        raise SystemExit(2)
    try:
        if option == "-m":
            _run_module(arguments[1], arguments[2:])
        elif option == "-c":
            _run(compile(arguments[1], "<string>", "exec", dont_inherit=True), ["-c", *arguments[2:]])
        else:
            _run_script(arguments[0], arguments[1:])
    except SystemExit:
        raise
    except BaseException as error:
        _report(error)


def _change_environment(install: bool) -> None:
    """Install or uninstall the local `torch` distribution, and print what was done or why it cannot be."""
    from . import _torch_distribution as torch

    try:
        done = torch.install(str(sys.modules[_OURS].__version__)) if install else torch.uninstall()
    except torch.InstallError as error:
        print(f"{_OURS}.as_torch: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    print(done)


def _report(error: BaseException) -> NoReturn:
    """End as Python ends after an error, with the program's own frames in the traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in (__name__, "runpy"):
        trace = trace.tb_next
    if (
        isinstance(error, SyntaxError)
        and trace is not None
        and trace.tb_frame.f_code.co_name == "source_to_code"
    ):
        trace = None
    sys.excepthook(type(error), error.with_traceback(trace), trace)
    raise SystemExit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _run(code: CodeType, argv: list[str], **attributes: Any) -> None:
    """Run code as the module ``__main__``."""
    program = ModuleType("__main__")
    vars(program).update({"__builtins__": __builtins__, "__annotations__": {}, **attributes})
    sys.argv[:] = argv
    sys.modules["__main__"] = program
    exec(code, vars(program))


def _run_script(path: str, arguments: list[str]) -> None:
    if os.path.isdir(path) or zipfile.is_zipfile(path):
        sys.argv[:] = [path, *arguments]
        runpy.run_path(path, run_name="__main__")
        return
    file = os.path.abspath(path)
    try:
        with io.open_code(file) as opened:
            source = opened.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {file!r}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    code = compile(source, file, "exec", dont_inherit=True)
    _run(code, [path, *arguments], __file__=file, __cached__=None, __loader__=loader)


def _run_module(name: str, arguments: list[str]) -> None:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name = f"{name}.__main__"
        spec = importlib.util.find_spec(name)
    loader: Any = spec and spec.loader
    code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None
    if spec is None or code is None:
        print(f"{sys.executable}: No module named {name}", file=sys.stderr)
        raise SystemExit(1)
    _run(
        code,
        [spec.origin or name, *arguments],
        __file__=spec.origin,
        __cached__=spec.cached,
        __loader__=loader,
        __package__=spec.parent,
        __spec__=spec,
    )


if __name__ == "__main__":
    # The module that programs import, not a second copy of it.
    importlib.import_module(f"{_OURS}.as_torch").main()
else:
    _install()
