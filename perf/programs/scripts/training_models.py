"""Networks whose training steps are compared operator by operator."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional


class ClippedAdamW(torch.optim.AdamW):
    """AdamW that limits the norm of all gradients first."""

    def step(self, closure):
        loss = closure()
        for group in self.param_groups:
            nn.utils.clip_grad_norm_(group["params"], 1.0)
        super().step()
        return loss


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        batch, length, width = x.shape
        split = (
            each.view(batch, length, self.heads, -1).transpose(1, 2) for each in self.qkv(x).split(width, 2)
        )
        y = functional.scaled_dot_product_attention(*split, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary, length, width, heads, layers):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


class ResidualBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu, self.shortcut = nn.ReLU(inplace=True), None
        if stride > 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        y += x if self.shortcut is None else self.shortcut(x)
        return self.relu(y)


def resnet18(classes):
    """ResNet-18 (He et al., 2016)."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        layers += [ResidualBlock(inputs, outputs, 2 if stage else 1), ResidualBlock(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


class SequenceClassifier(nn.Module):
    def __init__(self, features, width, layers, classes):
        super().__init__()
        self.rnn = nn.LSTM(features, width, layers, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def perceptron(*widths):
    layers = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
