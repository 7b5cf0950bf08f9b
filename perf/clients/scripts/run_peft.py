"""LoRA of a small Llama by peft: loss, gradients of the adapters alone, merged weights."""

import json

import torch
from deterministic import fill, normal
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

tokens = torch.arange(2, 26).reshape(2, 12)
base = fill(LlamaForCausalLM(LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)))  # fmt: skip
model = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
with torch.no_grad():
    for name, p in model.named_parameters():
        if "lora_A" in name:
            p.copy_(normal(*p.shape) * 0.1)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=1.0)
losses = []
for _ in range(3):
    loss = model(input_ids=tokens, labels=tokens).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert all((p.grad is not None) == ("lora_" in name) for name, p in model.named_parameters())
merged = model.merge_and_unload()(input_ids=tokens, labels=tokens).loss.item()
print(json.dumps({"merged": merged} | {f"loss {i}": loss for i, loss in enumerate(losses)}))
