"""The server of embeddings, in this environment where `triten.as_torch` stands for PyTorch."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import triten as tt

SERVE = Path(__file__).parents[2] / "examples" / "deploy" / "serve.py"


def test_a_model_is_made_and_served(tmp_path: Path) -> None:
    for module in ("transformers", "tokenizers"):
        pytest.importorskip(module)
    command = [sys.executable, "-P", "-m", "triten.as_torch", str(SERVE)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    make = [*command, "--make", str(tmp_path / "model"), "--layers", "1", "--width", "12"]
    subprocess.run(make, check=True, env=environment)
    assert (tmp_path / "model" / "model.safetensors").exists()
    serve = [*command, "--model", str(tmp_path / "model"), "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+:\d+", server.stdout.readline())
            assert address is not None

            def ask(path: str, data: bytes | None = None) -> dict[str, object]:
                with urllib.request.urlopen(address[0] + path, data, timeout=60) as answer:
                    found: dict[str, object] = json.load(answer)
                return found

            texts = ["summer", "a day of summer", "summer"]
            embeddings = tt.tensor(ask("/embed", json.dumps({"texts": texts}).encode())["embeddings"])
            assert embeddings.shape == (3, 12)
            tt.testing.assert_close(embeddings.norm(dim=1), tt.ones(3))
            tt.testing.assert_close(embeddings[0], embeddings[2], atol=1e-5, rtol=0)
            assert "model loaded" in ask("/status")
            with pytest.raises(urllib.error.HTTPError, match="400"):
                ask("/embed", b"{}")
        finally:
            server.terminate()
