"""Train a graph convolution network to classify communities of a graph, and print its accuracy on unseen
nodes.

    python examples/graph_convolution.py [--device cpu|cuda|auto] [--nodes 100000] [--epochs 30] [--seed 0]

The network has two layers (Kipf and Welling, "Semi-Supervised Classification with Graph Convolutional
Networks", 2017). Each layer multiplies the graph's normalized adjacency, a sparse CSR matrix, by features
that a weight matrix has mixed. The labels of one node in twenty are known.

The data is generated. Every node belongs to one of several communities, and has edges to random nodes, most
of them in its own community. Noise in the features hides the community of a single node.
"""

import argparse
import time

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import triten as tt
import triten.nn.functional as F
from triten import nn

COMMUNITIES = 8
FEATURES = 32
EDGES = 8
"""That each node sends out."""
OWN = 0.7
"""The share of edges that stay within a community."""
NOISE = 6.0
KNOWN = 0.05
"""The share of nodes whose labels are trained on."""


def generate(nodes: int, seed: int) -> tuple[tt.Tensor, tt.Tensor, tt.Tensor, tt.Tensor]:
    """Adjacency (nodes, nodes) in `tt.sparse_coo`, features (nodes, 32), labels (nodes,), and which are known."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, COMMUNITIES, nodes)
    members = np.argsort(labels, kind="stable")
    begins = np.searchsorted(labels[members], np.arange(COMMUNITIES + 1))
    source = np.repeat(np.arange(nodes), EDGES)
    own = labels[source]
    inside = members[
        begins[own] + (rng.random(source.size) * (begins[own + 1] - begins[own])).astype(np.int64)
    ]
    target = np.where(rng.random(source.size) < OWN, inside, rng.integers(0, nodes, source.size))
    edges = np.stack([np.concatenate([source, target]), np.concatenate([target, source])])
    adjacency = tt.sparse_coo_tensor(tt.from_numpy(edges), tt.ones(edges.shape[1]), (nodes, nodes)).coalesce()
    centres = rng.standard_normal((COMMUNITIES, FEATURES))
    features = centres[labels] + NOISE * rng.standard_normal((nodes, FEATURES))
    known = rng.random(nodes) < KNOWN
    known[begins[:-1]] = True
    return (
        adjacency,
        tt.from_numpy(features.astype(np.float32)),
        tt.from_numpy(labels),
        tt.from_numpy(known),
    )


def normalised(adjacency: tt.Tensor) -> tt.Tensor:
    """``D^-1/2 (A + I) D^-1/2`` in `tt.sparse_csr`, of the adjacency A and the degrees D of A + I."""
    nodes = adjacency.shape[0]
    diagonal = tt.arange(nodes, device=adjacency.device).expand(2, nodes)
    loops = tt.sparse_coo_tensor(diagonal, tt.ones(nodes, device=adjacency.device), adjacency.shape)
    graph = (adjacency + loops).coalesce()
    scale = tt.sparse.sum(graph, 1).to_dense().rsqrt()
    rows, columns = graph.indices()
    values = graph.values() * scale[rows] * scale[columns]
    return tt.sparse_coo_tensor(graph.indices(), values, graph.shape, is_coalesced=True).to_sparse_csr()


class GraphConvolution(nn.Module):
    """Features (N, in) of the nodes of a graph to (N, out)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(tt.zeros(outputs))

    def forward(self, graph: tt.Tensor, features: tt.Tensor) -> tt.Tensor:
        return graph @ self.linear(features) + self.bias


class Network(nn.Module):
    """Features (N, 32) to logits (N, 8)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.first = GraphConvolution(FEATURES, hidden)
        self.second = GraphConvolution(hidden, COMMUNITIES)

    def forward(self, graph: tt.Tensor, features: tt.Tensor) -> tt.Tensor:
        return self.second(graph, F.relu(self.first(graph, features)))


def accuracy(
    model: Network, graph: tt.Tensor, features: tt.Tensor, labels: tt.Tensor, among: tt.Tensor
) -> float:
    """Percentage of the nodes in a mask whose largest logit is at their label."""
    with tt.no_grad():
        correct = (model(graph, features).argmax(dim=1) == labels)[among]
        return 100 * correct.sum().item() / len(correct)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a graph convolution network on generated communities."
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0, help="of the graph and the weights")
    arguments = parser.parse_args()
    if arguments.epochs < 1 or arguments.nodes < COMMUNITIES * 10:
        parser.error(f"--epochs must be at least 1, --nodes {COMMUNITIES * 10}")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    device = arguments.device
    if device == "auto":
        device = "cuda" if tt.cuda.is_available() else "cpu"
    tt.manual_seed(arguments.seed)
    adjacency, features, labels, known = (
        part.to(device) for part in generate(arguments.nodes, arguments.seed)
    )
    graph = normalised(adjacency)
    model = Network(arguments.hidden).to(device)
    optimizer = tt.optim.Adam(model.parameters(), arguments.lr)
    print(
        f"device: {device}, {graph.shape[0]} nodes, {graph._nnz()} entries, {int(known.sum())} known labels"
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    started = time.perf_counter()
    with Progress(*columns) as progress:
        bar = progress.add_task("training", total=arguments.epochs)
        for epoch in range(arguments.epochs):
            loss = F.cross_entropy(model(graph, features)[known], labels[known])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            progress.update(bar, advance=1, description=f"epoch {epoch + 1:3}, loss {loss.item():.4f}")
    print(f"time: {time.perf_counter() - started:.1f} s")
    print(f"accuracy on unseen nodes: {accuracy(model, graph, features, labels, ~known):.1f} %")


if __name__ == "__main__":
    main()
