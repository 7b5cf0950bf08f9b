"""A process in which the stand-in is the CUDA driver: runs test functions that it is told of, and tells how it went.

Reads pickled (file, function, arguments) from stdin; writes a pickled text to stdout: empty, or the failure.
"""

import ctypes
import importlib.util
import os
import pickle
import sys
import traceback
from pathlib import Path
from types import ModuleType

# Whatever a test prints goes to stderr: stdout belongs to the answers.
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

sys.path.insert(0, str(Path(__file__).parent))

import pytest  # noqa: E402
from cupy.cuda import runtime  # noqa: E402
from recorded_calls import StandIn  # noqa: E402

LONGEST = 400


def loaded(file: str, modules: dict[str, ModuleType]) -> ModuleType:
    if file not in modules:
        spec = importlib.util.spec_from_file_location(Path(file).stem, file)
        assert spec is not None and spec.loader is not None
        modules[file] = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(modules[file])
    return modules[file]


def outcome(standin: StandIn, function: object, arguments: dict[str, object]) -> tuple[str, str]:
    standin.begin()
    try:
        function(standin=standin, **arguments)
    except pytest.skip.Exception as reason:
        return "skipped", str(reason)
    except (Exception, pytest.fail.Exception) as error:
        lines = traceback.TracebackException.from_exception(error, capture_locals=True, compact=True).format()
        text = "".join(lines).splitlines()
        return "failed", "\n".join(line if len(line) < LONGEST else line[:LONGEST] + "..." for line in text)
    return "passed", ""


def main() -> None:
    standin = StandIn()
    replaced = ctypes.CDLL("libcuda.so.1").standin_replace_runtime(runtime.__file__.encode())
    assert replaced > 40, f"CuPy's runtime module holds {replaced} of the functions to replace"
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
