"""Serve sentence embeddings of a BERT model over HTTP: a PyTorch program that runs with or without PyTorch.

    python examples/deploy/serve.py --make model      # write a model with random weights as a safetensors file
    python examples/deploy/serve.py --model model --port 8000
    curl localhost:8000/embed -d '{"texts": ["Shall I compare thee to a summer'"'"'s day?"]}'

The program imports torch and transformers. In an environment where `python -m triten.as_torch --install` has run,
torch is triten. The default sizes are those of all-MiniLM-L6-v2: 6 layers of width 384, 22.7 million weights.

`GET /status` gives the process's CPU seconds, and its resident memory in MB after each stage of the start and now.
"""

from __future__ import annotations

import argparse
import json
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

STARTED = time.perf_counter()
SONNETS = Path(__file__).parents[1] / "sonnets.txt"


def resident_megabytes() -> float:
    """Return the memory of this process that is in RAM (Linux)."""
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024


import torch  # noqa: E402

MEMORY = {"import torch": resident_megabytes()}

from transformers import BertConfig, BertModel, PreTrainedTokenizerFast  # noqa: E402

MEMORY["import transformers"] = resident_megabytes()


def make_model(folder: Path, layers: int, width: int) -> None:
    """Write a BERT with random weights, and a WordPiece tokenizer that is trained on sonnets."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer()
    tokenizer.train_from_iterator([SONNETS.read_text(encoding="utf-8")], vocab_size=2000, show_progress=False)
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer._tokenizer, **special).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=12, intermediate_size=4 * width
    )
    BertModel(config).save_pretrained(folder)


class Embedder:
    """Sentence embeddings: the mean of the last hidden states, normalized."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        self.model = BertModel.from_pretrained(folder, local_files_only=True).eval()

    @torch.inference_mode()
    def __call__(self, texts: list[str]) -> torch.Tensor:
        """Return the embeddings (texts, width)."""
        batch = self.tokenizer(texts, padding=True, truncation=True, max_length=128, return_tensors="pt")
        hidden = self.model(batch["input_ids"], batch["attention_mask"]).last_hidden_state
        mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


def handler(embed: Embedder) -> type[BaseHTTPRequestHandler]:
    """Return the class that answers requests with a model."""

    class Handler(BaseHTTPRequestHandler):
        """Answers POST /embed and GET /status."""

        def do_GET(self) -> None:
            if self.path == "/status":
                self.answer(200, {**MEMORY, "now": resident_megabytes(), "cpu": time.process_time()})
            else:
                self.answer(404, {"error": f"no such page: {self.path}"})

        def do_POST(self) -> None:
            try:
                texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["texts"]
            except (KeyError, TypeError, ValueError) as error:
                self.answer(400, {"error": f'expected {{"texts": [...]}}: {error}'})
                return
            self.answer(200, {"embeddings": embed(texts).tolist()})

        def answer(self, status: int, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing for a request."""

    return Handler


def main() -> None:
    """Make a model, or serve one."""
    parser = argparse.ArgumentParser(description="Serve sentence embeddings of a BERT model over HTTP.")
    parser.add_argument("--make", type=Path, metavar="FOLDER", help="write a model there, and end")
    parser.add_argument("--layers", type=int, default=6, help="of the model to make")
    parser.add_argument("--width", type=int, default=384, help="of the model to make, a multiple of 12")
    parser.add_argument("--model", type=Path, metavar="FOLDER", help="the model to serve")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one. Default: 8000")
    options = parser.parse_args()
    if (options.make is None) == (options.model is None):
        parser.error("give one of --make and --model")
    if options.make is not None:
        make_model(options.make, options.layers, options.width)
        print(f"written to {options.make}")
        return
    embed = Embedder(options.model)
    MEMORY["model loaded"] = resident_megabytes()
    with HTTPServer(("127.0.0.1", options.port), handler(embed)) as server:
        print(
            f"torch {torch.__version__}: http://127.0.0.1:{server.server_port}/embed, "
            f"ready after {time.perf_counter() - STARTED:.2f} s",
            flush=True,
        )
        server.serve_forever()


if __name__ == "__main__":
    main()
