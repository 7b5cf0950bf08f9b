"""Quantize the network of `train_digits.py` and print the accuracy of each method on unseen digits.

    python examples/quantize_digits.py [--device cpu|cuda|auto] [--epochs 20] [--qat-epochs 3] [--seed 0]

The network is trained. Its linear layers are quantized after training, and again after some more epochs of
quantization-aware training. `--device auto` uses the GPU if there is one.
"""

import argparse
import copy
import math

from train_digits import ConvNet, accuracy, load_digits

import triten as tt
import triten.nn.functional as F
from triten.quantization import (
    AOBaseConfig,
    Float8WeightOnlyConfig,
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    MXDynamicActivationMXWeightConfig,
    NVFP4DynamicActivationNVFP4WeightConfig,
    QATConfig,
    quantize_,
)

CONFIGS: dict[str, AOBaseConfig] = {
    "int8 weights": Int8WeightOnlyConfig(),
    "int8 weights and activations": Int8DynamicActivationInt8WeightConfig(),
    "int4 weights, groups of 32": Int4WeightOnlyConfig(32),
    "float8 weights": Float8WeightOnlyConfig(),
    "MXFP8 weights and activations": MXDynamicActivationMXWeightConfig(),
    "MXFP4 weights and activations": MXDynamicActivationMXWeightConfig(
        32, tt.float4_e2m1fn_x2, tt.float4_e2m1fn_x2
    ),
    "NVFP4 weights and activations": NVFP4DynamicActivationNVFP4WeightConfig(),
}


def train(
    model: ConvNet, images: tt.Tensor, labels: tt.Tensor, epochs: int, lr: float, batch_size: int = 32
) -> None:
    """SGD with momentum; a cosine takes the rate to zero."""
    optimizer = tt.optim.SGD(model.parameters(), lr, momentum=0.9)
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = lr * 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        order = tt.randperm(len(labels), device=labels.device)
        for start in range(0, len(labels), batch_size):
            batch = order[start : start + batch_size]
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Quantize a small convolutional network.")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--qat-epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0, help="of weights and the order of batches")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    device = arguments.device
    if device == "auto":
        device = "cuda" if tt.cuda.is_available() else "cpu"
    tt.manual_seed(arguments.seed)
    images, labels, test_images, test_labels = load_digits(device)
    model = ConvNet().to(device)
    train(model, images, labels, arguments.epochs, 0.05, arguments.batch_size)
    print(f"float32: {accuracy(model, test_images, test_labels):.1f} %")
    for name, config in CONFIGS.items():
        after, aware = copy.deepcopy(model), copy.deepcopy(model)
        quantize_(after, config)
        quantize_(aware, QATConfig(config, step="prepare"))
        train(aware, images, labels, arguments.qat_epochs, 0.005, arguments.batch_size)
        quantize_(aware, QATConfig(config, step="convert"))
        accuracies = (accuracy(each, test_images, test_labels) for each in (after, aware))
        print("{}: {:.1f} % after training, {:.1f} % with training that expects it".format(name, *accuracies))


if __name__ == "__main__":
    main()
