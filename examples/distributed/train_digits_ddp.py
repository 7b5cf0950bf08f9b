"""Train the network of `train_digits.py` in several processes, each with a part of the images.

    mpiexec -n 2 python examples/distributed/train_digits_ddp.py [--device cpu|cuda] [--epochs 10] [--batch-size 32]
    python -m triten.distributed.run --nproc-per-node 2 examples/distributed/train_digits_ddp.py

`DistributedDataParallel` averages the gradients, `DistributedSampler` splits the images, and
`ZeroRedundancyOptimizer` shards the state of the optimizer. The batch size is that of all processes together,
so the number of steps and the accuracy are those of one process.
"""

import argparse
import sys
from pathlib import Path

import triten as tt
import triten.nn.functional as F
from triten import distributed as dist
from triten.distributed.optim import ZeroRedundancyOptimizer
from triten.nn.parallel import DistributedDataParallel
from triten.utils.data import DataLoader, DistributedSampler, TensorDataset

sys.path.insert(0, str(Path(__file__).parents[1]))
from train_digits import ConvNet, accuracy, load_digits


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on handwritten digits in several processes.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    arguments = parser.parse_args()

    dist.init_process_group("cpu:mpi,cuda:nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = arguments.device
    if device == "cuda":
        device = f"cuda:{dist.get_node_local_rank(rank) % tt.cuda.device_count()}"
        tt.cuda.set_device(device)
    tt.manual_seed(0)
    train_images, train_labels, test_images, test_labels = load_digits(device)
    model = DistributedDataParallel(ConvNet().to(device))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), tt.optim.SGD, lr=0.05, momentum=0.9)
    images = TensorDataset(train_images, train_labels)
    sampler = DistributedSampler(images, size, rank, shuffle=True)
    loader = DataLoader(images, arguments.batch_size // size, sampler=sampler)

    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        total = tt.zeros((), device=device)
        for batch, labels in loader:
            loss = F.cross_entropy(model(batch), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch + 1:2}, loss {total.item() / size / len(loader):.4f}", flush=True)
    if rank == 0:
        print(f"test accuracy: {accuracy(model.module, test_images, test_labels):.1f} %")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
