"""A trace of two steps with known times: a forward pass, a launch with its kernel, and a backward node."""

import json
from pathlib import Path
from typing import Any

MAIN = "/home/user/train.py(9): <module>"
STEP = f"/home/user/train.py(5): step;{MAIN}"
FORWARD = f"/home/user/net.py(3): forward;{STEP}"
PLAN = {
    "device": "h200",
    "operators": [
        {"name": "aten::mm", "calls": 1, "work_seconds": 2e-6, "overhead_seconds": 3e-6},
        {"name": "aten::add.Tensor", "calls": 2, "work_seconds": 1e-6, "overhead_seconds": 1e-6},
        {"name": "aten::add.Scalar", "calls": 1, "work_seconds": 1e-6, "overhead_seconds": 2e-6},
    ],
    "backward_nodes": 1,
    "autograd_seconds": 4e-6,
    "seconds": 1.4e-5,
    "work_seconds": 4e-6,
    "overhead_seconds": 1e-5,
    "peak_bytes": 5000,
    "given_bytes": 1000,
}


def span(name: str, start: float, length: float, category: str = "cpu_op", **more: Any) -> dict[str, Any]:
    stack = more.pop("stack", None)
    args = more.pop("args", {}) | ({"Call stack": stack} if stack else {})
    return {
        "ph": "X", "cat": category, "name": name, "pid": 7, "tid": 7, "ts": 1e6 + start, "dur": length,
        "args": args, **more,
    }  # fmt: skip


def memory(start: float, address: int, nbytes: int, device: int = 1) -> dict[str, Any]:
    args = {"Addr": address, "Bytes": nbytes, "Device Type": device, "Device Id": 0 if device else -1}
    return {"ph": "i", "name": "[memory]", "pid": 7, "tid": 7, "ts": 1e6 + start, "args": args}


def events() -> list[dict[str, Any]]:
    """Two steps of 100 us."""
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 7, "args": {"name": "main"}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 3, "args": {"name": "stream 3"}},
    ]
    for step, zero in enumerate((0.0, 100.0)):
        shapes = {"Input Dims": [[4, 8], []], "Input type": ["float32", "Scalar"]}
        found += [
            span(f"ProfilerStep#{step}", zero, 100, "user_annotation", stack=MAIN),
            span("nn.Module: Net_0", zero + 10, 40, "python_function", stack=STEP),
            span("aten::mm", zero + 15, 20, stack=FORWARD, args=shapes),
            span("cuLaunchKernel", zero + 20, 5, "cuda_runtime"),
            memory(zero + 18, 64, 3000),
            span("autograd::engine::evaluate_function: MmBackward0", zero + 60, 20, stack=STEP),
            span("MmBackward0", zero + 62, 16, stack=STEP),
            span("aten::add", zero + 65, 10, stack=STEP),
            memory(zero + 66, 128, 1000),
            memory(zero + 70, 64, -3000),
            memory(zero + 90, 128, -1000),
            {"ph": "s", "cat": "ac2g", "id": step, "pid": 7, "tid": 7, "ts": 1e6 + zero + 20},
            span(
                "mm_kernel",
                zero + 24,
                30,
                "kernel",
                pid=0,
                tid=3,
                args={"correlation": step, "grid": [2, 1, 1]},
            ),
        ]
    return found


def write_trace(path: Path, **step: Any) -> Path:
    content = {"traceEvents": events(), "tritenStep": {"steps": 2, "seconds": 5e-5, "plan": PLAN} | step}
    path.write_text(json.dumps(content))
    return path
