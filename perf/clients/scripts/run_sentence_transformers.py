"""A sentence transformer of its modules: embeddings of token ids, and a step of training."""

import json

import torch
from deterministic import fill
from sentence_transformers import models
from sentence_transformers.util import cos_sim

embedding = fill(torch.nn.Embedding(64, 16))
pooling = models.Pooling(16, "mean")
dense = fill(models.Dense(16, 8, bias=False))


def encode(tokens):
    features = {"token_embeddings": embedding(tokens), "attention_mask": (tokens > 0).long()}
    return dense(pooling(features))["sentence_embedding"]


left, right = torch.arange(1, 25).reshape(4, 6), torch.arange(4, 28).reshape(4, 6)
scores = cos_sim(encode(left), encode(right)) * 20
loss = torch.nn.functional.cross_entropy(scores, torch.arange(4))
loss.backward()
print(json.dumps({"loss": loss.item(), "gradient": dense.linear.weight.grad.norm().item()}))
