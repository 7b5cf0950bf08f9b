"""Client packages: a package, the program that uses it, and the program's requirements."""

from __future__ import annotations

from typing import NamedTuple


class Client(NamedTuple):
    """A third-party package that runs on triten.

    Attributes:
        package: Name on PyPI, pinned in `requirements.txt`.
        script: Name of the program in `scripts/`.
        does: Description of the program, for the table.
        cuda: ``TRITEN_CUDA`` of the process.
        quick: True if `.ci/run` runs it.
        versions: Other pinned packages that come first on the path, as ``name==version``.
    """

    package: str
    script: str
    does: str
    cuda: str = "interpret"
    quick: bool = True
    versions: tuple[str, ...] = ()


CLIENTS = (
    Client("liger-kernel", "liger_kernel", "norms, activations, losses: forward and backward, Triton interpreted"),
    Client("flag_gems", "flag_gems", "operators through Library.impl: forward, Triton emulated", "emulate", False,
           ("triton==3.7.1",)),
    Client("flash-linear-attention", "flash_linear_attention", "recurrent attention: forward and backward, interpreted",
           quick=False, versions=("triton==3.8.0",)),
    Client("bitsandbytes", "bitsandbytes", "4-bit Triton kernels: quantize and dequantize, interpreted"),
    Client("torchao", "torchao", "int8 weight-only linear layers: forward, CPU"),
    Client("gemlite", "gemlite", "4-bit weight matmul: forward, interpreted"),
    Client("unsloth", "unsloth", "RMS norm and SwiGLU kernels: forward and backward, interpreted"),
    Client("transformers", "transformers", "Llama, BERT and T5 from a config: loss, gradients, generate, CPU"),
    Client("transformers", "transformers", "the same, with version 4", quick=False,
           versions=("transformers==4.57.6",)),
    Client("sentence-transformers", "sentence_transformers", "a model of modules: encode and train, CPU"),
    Client("accelerate", "accelerate", "a training loop, CPU"),
    Client("peft", "peft", "LoRA of a Llama: loss and gradients, CPU"),
    Client("diffusers", "diffusers", "UNet2DModel and a scheduler: loss, gradients, denoising, CPU"),
    Client("timm", "timm", "resnet10t: loss and gradients, CPU", quick=False, versions=("torchvision==0.29.2",)),
    Client("lightning", "lightning", "Trainer.fit, CPU"),
)  # fmt: skip
