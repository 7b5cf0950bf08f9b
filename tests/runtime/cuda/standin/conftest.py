"""Fixtures that run this folder's tests in processes of their own, in which the stand-in is libcuda.so.1.

A test takes `standin` (`recorded_calls.StandIn`) and parameters, no other fixtures. The fixtures keep one
process for each set of settings of `@pytest.mark.standin(driver=12080, ...)`, with two devices by default.
The C sources read the settings by `standin_setting`.
"""

import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from triten.tests.runtime.cuda.standin.install import executing
from triten.tests.shared.threads import PATIENCE

FOLDER = Path(__file__).parent


def _build_module():
    spec = importlib.util.spec_from_file_location("build_library", FOLDER / "build_library.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Worker:
    """Process of `worker.py` with the given settings."""

    def __init__(self, library: Path, settings: dict[str, object]) -> None:
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("TRITEN_CUDA", "TRITEN_EMULATE", "TRITON_INTERPRET")
        }
        if "execute" in settings:
            environment["TRITEN_EMULATE"] = str(settings["capability"])
        environment |= {f"STANDIN_{name.upper()}": str(value) for name, value in settings.items()}
        environment["LD_LIBRARY_PATH"] = str(library.parent)
        environment["CUPY_CACHE_DIR"] = str(library.parent / "cupy")
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(FOLDER / "worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )

    def run(self, file: str, function: str, arguments: dict[str, object]) -> tuple[str, str]:
        try:
            pickle.dump((file, function, arguments), self.process.stdin)
            self.process.stdin.flush()
            return pickle.load(self.process.stdout)
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):
            return (
                "died",
                f"the process ended with status {self.process.wait(PATIENCE)}; its stderr says more",
            )

    def close(self) -> None:
        self.process.kill()  # it holds nothing that an orderly end would save
        self.process.wait(PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()


class Workers:
    """Library, built at first use, and the running processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.library: Path | None = None
        self.by_settings: dict[tuple[object, ...], Worker] = {}

    def run(self, settings: dict[str, object], file: str, function: str, arguments: dict[str, object]):
        if self.library is None:
            self.library = _build_module().build(self.folder)
        key = tuple(sorted(settings.items()))
        if key not in self.by_settings:
            self.by_settings[key] = Worker(self.library, settings)
        status, text = self.by_settings[key].run(file, function, arguments)
        if status == "died":
            del self.by_settings[key]
        return status, text

    def close(self) -> None:
        for worker in self.by_settings.values():
            worker.close()


@pytest.fixture(scope="session")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    running = Workers(tmp_path_factory.mktemp("standin"))
    yield running
    running.close()


@pytest.fixture
def standin(workers: Workers) -> Workers:
    """Return the workers; in the test itself, `standin` is the process's `StandIn`."""
    reason = _build_module().missing()
    if not reason and importlib.util.find_spec("cupy") is None:
        reason = "cupy is not installed"
    if reason:
        pytest.skip(reason)
    return workers


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    running = pyfuncitem.funcargs.get("standin")
    if not isinstance(running, Workers):
        return None
    marker = pyfuncitem.get_closest_marker("standin")
    arguments = dict(pyfuncitem.callspec.params) if hasattr(pyfuncitem, "callspec") else {}
    asked = marker.kwargs if marker else {}
    devices = executing(asked.get("capability", 80)) if asked.get("execute") else {}
    settings = {"devices": 2} | devices | asked
    status, text = running.run(settings, str(pyfuncitem.path), pyfuncitem.originalname, arguments)
    if status == "skipped":
        pytest.skip(text)
    if status != "passed":
        pytest.fail(f"in the process over the stand-in ({settings}):\n{text}", pytrace=False)
    return True


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "standin(**settings): the settings of the stand-in that the test runs over"
    )
