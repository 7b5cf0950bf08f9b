"""Settings of the whole test run: which CUDA driver, and the devices that a test is repeated on."""

import importlib.util
import os

import pytest

# Both are read once, when triten's CUDA driver and Triton itself are first imported. With TRITEN_CUDA set to
# another value the same tests run on a GPU, where the interpreter must be off.
if os.environ.setdefault("TRITEN_CUDA", "interpret") == "interpret":
    os.environ["TRITON_INTERPRET"] = "1"
else:
    os.environ.pop("TRITON_INTERPRET", None)


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    """The name of a device; a test that takes it runs once on each."""
    name: str = request.param
    if name == "cuda" and importlib.util.find_spec("triton") is None:
        pytest.skip("triton has no wheel for this platform")
    return name
