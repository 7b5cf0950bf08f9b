"""`python -m triten.dispatch.codegen [--check]`: write the generated code, or say whether it is fresh."""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

from .autograd import autograd_module
from .deprecated import load_deprecated
from .derivatives import load_derivatives
from .docstrings import Docstrings
from .documentation import documentation_of
from .forward import forward_index, forward_module
from .functions import functions_module, has_methods, methods_module, packets_of, signatures_of
from .load import load_functions
from .registrations import (
    functions_index_module,
    index_module,
    operator_index_module,
    package_module,
    registrations_module,
    tensor_methods_module,
)
from .stubs import functions_stub, methods_stub, return_types_stub

DISPATCH = Path(__file__).resolve().parent.parent


def generate() -> dict[str, str]:
    """Return all generated files by name, formatted."""
    operators = load_functions(DISPATCH / "native_functions")
    derivatives = load_derivatives(DISPATCH / "derivatives.yaml", operators)
    deprecated = load_deprecated(DISPATCH / "deprecated.yaml", operators)
    families = operators.families()
    docstrings = Docstrings(signatures_of(operators), documentation_of(operators.functions))
    files: dict[str, str] = {}
    names: dict[str, list[str]] = {}
    for family in families:
        functions = operators.of_family(family)
        own = [d for d in derivatives if d.function.family == family]
        files[f"functions/{family}.py"] = functions_module(family, functions, deprecated, docstrings)
        if has_methods(functions):
            files[f"methods/{family}.py"] = methods_module(family, functions, deprecated, docstrings)
        files[f"registrations/{family}.py"] = registrations_module(family, functions, own)
        if own:
            files[f"autograd/{family}.py"] = autograd_module(family, own, functions)
            if any(d.forward for d in own):
                files[f"forward/{family}.py"] = forward_module(family, own)
        names[family] = sorted(
            name
            for name, signature in packets_of(functions).items()
            if any("function" in f.variants for f in signature.overloads if f.form != "out")
        )
    files["__init__.py"] = index_module(families)
    files["autograd/__init__.py"] = package_module("Plans of the Autograd keys, a module for each family.")
    files["registrations/__init__.py"] = package_module(
        "Definitions of operators and their kernels, a module for each family."
    )
    files["methods/__init__.py"] = tensor_methods_module(
        [family for family in families if f"methods/{family}.py" in files]
    )
    files["forward/__init__.py"] = forward_index(derivatives, list(operators.functions))
    files["registrations/operator_index.py"] = operator_index_module(
        {family: [str(f.name) for f in operators.of_family(family)] for family in families}
    )
    files["functions/__init__.py"] = functions_index_module(names)
    files["functions/__init__.pyi"] = functions_stub(operators, docstrings)
    files["methods/__init__.pyi"] = methods_stub(operators, docstrings)
    files["return_types.pyi"] = return_types_stub(operators)
    return files


def formatted(files: dict[str, str]) -> dict[str, str]:
    """Format files with ruff, a development tool that generation requires."""
    if importlib.util.find_spec("ruff") is None:
        raise SystemExit("generating needs ruff: pip install 'triten[dev]'")
    out = {}
    for name, text in files.items():
        for arguments in (
            ["check", "--select", "I", "--fix", "--quiet", "--exit-zero"],
            ["format", "--quiet"],
        ):
            command = [
                sys.executable,
                "-m",
                "ruff",
                *arguments,
                "--config",
                str(DISPATCH.parent / "pyproject.toml"),
            ]
            command += ["--stdin-filename", str(DISPATCH / "generated" / name), "-"]
            done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
            text = done.stdout
        out[name] = text
    return out


def main() -> int:
    """Write or check; the exit status says whether anything was stale."""
    parser = argparse.ArgumentParser(prog="python -m triten.dispatch.codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    parser.add_argument("--output", type=Path, default=DISPATCH / "generated", help="the folder to write to")
    arguments = parser.parse_args()
    files = formatted(generate())
    present = {
        str(p.relative_to(arguments.output)) for p in arguments.output.rglob("*.py*") if p.suffix != ".pyc"
    }
    present.discard("kernel_index.py")  # written by `kernel_index`, from the kernels themselves
    stale = sorted(
        [n for n, text in files.items() if n not in present or (arguments.output / n).read_text() != text]
        + list(present - set(files))
    )
    if arguments.check:
        for name in stale:
            print(f"stale: {arguments.output / name}")
        print(f"{len(files)} generated files, {len(stale)} stale")
        return 1 if stale else 0
    for name in stale:
        if name in files:
            (arguments.output / name).parent.mkdir(parents=True, exist_ok=True)
            (arguments.output / name).write_text(files[name])
        else:
            (arguments.output / name).unlink()
    print(f"wrote {len(stale)} of {len(files)} generated files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
