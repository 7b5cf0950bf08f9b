"""Record PyTorch's results of `cases.py` in `reference.jsonl`: ``python record.py`` under PyTorch 2.13 on x86."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from cases import CASES, arrays


def line_of(kind: str, name: str, results: list[tuple[str, Any]]) -> str:
    """Return a case as a line: the bytes of its arrays, compressed, or for large ones a digest."""
    tensors = []
    for dtype, array in results:
        data = array.tobytes()
        held = hashlib.sha256(data).digest() if kind == "large" else zlib.compress(data, 9)
        tensors.append([dtype, list(array.shape), base64.b64encode(held).decode()])
    return json.dumps({"kind": kind, "name": name, "tensors": tensors})


def main() -> None:
    """Write the file anew."""
    import torch

    lines = [
        line_of(k, name, arrays(torch, draw)) for k, named in CASES.items() for name, draw in named.items()
    ]
    Path(__file__).with_name("reference.jsonl").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
