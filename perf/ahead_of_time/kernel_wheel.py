"""A program for a process of its own: compile the kernels of sample calls for one target, and pack them into a wheel.

The calls are planned as `tt.cuda.precompile` plans a program. The wheel holds data alone, in the format of
`runtime.cuda.triton.packaged_kernels`, and is the same for the same kernels, byte for byte.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...dispatch.core.dispatcher import Dispatcher
from ...runtime.cuda import driver as cuda
from ...runtime.cuda.occupancy import KNOWN, Target
from ...runtime.cuda.planning_driver import PlanningDriver, UnknownValueError
from ...runtime.cuda.triton.assembler import least_cuda
from ...runtime.cuda.triton.compile import chosen_options
from ...runtime.cuda.triton.cubin_store import find_stored
from ...runtime.cuda.triton.forked_compilation import compile_forked
from ...runtime.cuda.triton.kernel_entry import pack
from ...runtime.cuda.triton.kernel_key import KernelRequest, environment, request_key, triton_identity
from ...runtime.cuda.triton.packaged_kernels import ARCHIVE, FORMAT, GROUP, INDEX
from ...version import __version__
from .request import load_module

DTYPES = ("float32", "float16", "bfloat16")
"""Dtypes whose samples a wheel covers, besides samples that name no dtype."""
OTHER_DTYPES = re.compile(r"\b(?:float64|float8\w*|complex\w*|u?int(?:8|16|32|64)|bool|bits\w*|q\w*int\w*)\b")
PLACEHOLDER = 5.0
"""Value of each number that the host reads back, such as the size of a result."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of the files in a wheel, so that equal kernels make equal wheels."""


def plan_requests(samples: Any, target: Target) -> list[KernelRequest]:
    """Return the distinct kernels that the samples launch on a target, by their requests."""
    driver = PlanningDriver(target, placeholder=PLACEHOLDER)  # type: ignore[abstract]
    cuda._driver = driver
    Dispatcher.singleton().forget_all()
    for sample in samples.samples(target.capability):
        if sample.refused or (
            OTHER_DTYPES.search(sample.label) and not any(d in sample.label for d in DTYPES)
        ):
            continue
        try:
            sample.run()
        except (NotImplementedError, UnknownValueError) as error:
            print(f"sm_{target.capability}: {sample.label} is left out: {error}", file=sys.stderr)
    found: dict[str, KernelRequest] = {}
    for each in driver.requests:
        request = KernelRequest(
            each["kernel"],
            each["signature"],
            each["constants"],
            each["divisible"],
            target.capability,
            chosen_options(each["options"]),
        )
        key = request_key(request)
        if key is not None:
            found.setdefault(key, request)
    return list(found.values())


def compile_requests(requests: Sequence[KernelRequest], version: int, workers: int) -> dict[str, bytes]:
    """Return the compiled kernels by `request_key`. Raise RuntimeError for one that does not compile."""
    missing = [request for request in requests if find_stored(request, version) is None]
    shows = sys.stderr.isatty()
    for i, each in enumerate(compile_forked(missing, version, workers)):
        if each.error:
            raise RuntimeError(f"kernel '{cuda.kernel_name(each.request.kernel)}': {each.error}")
        if shows:
            print(f"\rcompiled {i + 1} of {len(missing)}", end="", file=sys.stderr, flush=True)
    entries = {}
    for request in requests:
        binary, key = find_stored(request, version), request_key(request)
        if binary is None or key is None:
            raise RuntimeError(f"kernel '{cuda.kernel_name(request.kernel)}' is not in the disk cache")
        entries[key] = pack(key, binary)
    return entries


def write_wheel(folder: Path, target: Target, entries: Mapping[str, bytes], version: int) -> Path:
    """Write the wheel of a target's kernels into a folder, and return its path.

    Args:
        folder: The folder, which is created.
        target: Target of the kernels.
        entries: Packed kernels by `request_key`.
        version: CUDA version for whose drivers they are compiled.
    """
    package = f"triten_kernels_sm{target.capability}"
    places, archive = {}, bytearray()
    for key in sorted(entries):
        places[key] = (len(archive), len(entries[key]))
        archive += entries[key]
    index = {
        "format": FORMAT,
        "target": target.name,
        "cuda": version,
        "triton": triton_identity(),
        "kernels": places,
    }
    metadata = (
        f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: {__version__}\n"
        f"Summary: Compiled kernels of triten for {target.name}\nRequires-Dist: triten\n"
    )
    info = f"{package}-{__version__}.dist-info"
    files = {
        f"{package}/__init__.py": f'"""Compiled kernels of triten for {target.name}: data alone."""\n'.encode(),
        f"{package}/{INDEX}": json.dumps(index).encode(),
        f"{package}/{ARCHIVE}": bytes(archive),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: triten\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[{GROUP}]\n{target.name} = {package}\n".encode(),
    }
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{package}-{__version__}-py3-none-any.whl"
    partial = path.with_suffix(".tmp")
    with zipfile.ZipFile(partial, "w") as wheel:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, data, zipfile.ZIP_DEFLATED)
    os.replace(partial, path)
    return path


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def main(capability: int, source: str, folder: str, workers: int) -> None:
    """Build a wheel and print its path and the number of its kernels as JSON."""
    os.environ["TRITEN_TUNING_STORE"] = "0"  # results measured on some machine are not shipped
    if environment():
        raise RuntimeError(
            f"unset {', '.join(name for name, *_ in environment())}, which would change the shipped code"
        )
    target = KNOWN[capability]
    version = least_cuda(capability)
    requests = plan_requests(load_module(source), target)
    if not requests:
        raise RuntimeError(f"{source}: no sample launches a kernel")
    path = write_wheel(Path(folder), target, compile_requests(requests, version, workers), version)
    print(json.dumps({"path": str(path), "kernels": len(requests), "bytes": path.stat().st_size}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
