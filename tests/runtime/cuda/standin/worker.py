"""Worker process in which the stand-in is the CUDA driver: it runs the requested test functions and reports
results.

It reads pickled (file, function, arguments) from stdin, and writes a pickled text to stdout: empty, or the
failure.
"""

import ast
import os
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

# Whatever a test prints goes to stderr: stdout belongs to the answers.
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

sys.path.insert(0, str(Path(__file__).parent))

import pytest  # noqa: E402
from _pytest.assertion.rewrite import rewrite_asserts  # noqa: E402
from install import install  # noqa: E402
from recorded_calls import StandIn  # noqa: E402


def loaded(file: str, modules: dict[str, ModuleType]) -> ModuleType:
    """Load a test file as a module, with pytest's assertion messages."""
    if file not in modules:
        source = Path(file).read_bytes()
        tree = ast.parse(source, file)
        rewrite_asserts(tree, source, file)
        module = ModuleType(Path(file).stem)
        module.__file__ = file
        sys.modules[module.__name__] = module
        exec(compile(tree, file, "exec"), vars(module))
        modules[file] = module
    return modules[file]


def outcome(standin: StandIn, function: Callable[..., None], arguments: dict[str, object]) -> tuple[str, str]:
    standin.begin()
    try:
        function(standin=standin, **arguments)
        standin.end()
    except pytest.skip.Exception as reason:
        return "skipped", str(reason)
    except (Exception, pytest.fail.Exception):
        return "failed", traceback.format_exc()
    return "passed", ""


def main() -> None:
    standin = StandIn(install())
    modules: dict[str, ModuleType] = {}
    while True:
        try:
            file, name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            function = getattr(loaded(file, modules), name)
        except Exception:
            answer = "failed", traceback.format_exc()
        else:
            answer = outcome(standin, function, arguments)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
