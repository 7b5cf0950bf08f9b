"""Small models of transformers from their configs: loss, gradients and generated tokens."""

import json

import torch
from deterministic import fill
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

numbers = {}


def norm_of_gradients(model):
    return sum(p.grad.double().square().sum() for p in model.parameters() if p.grad is not None).sqrt().item()


tokens = torch.arange(2, 26).reshape(2, 12)
llama = fill(LlamaForCausalLM(LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=63,
)))  # fmt: skip
loss = llama(input_ids=tokens, labels=tokens).loss
loss.backward()
numbers["llama loss"], numbers["llama gradients"] = loss.item(), norm_of_gradients(llama)
generated = llama.eval().generate(tokens, max_new_tokens=6, do_sample=False)
numbers["llama tokens"] = float((generated * torch.arange(1, 19)).sum())

bert = fill(BertModel(BertConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                            intermediate_size=64))).eval()  # fmt: skip
hidden = bert(tokens, attention_mask=(tokens < 20).long()).last_hidden_state
hidden.square().sum().backward()
numbers["bert hidden"], numbers["bert gradients"] = hidden.abs().sum().item(), norm_of_gradients(bert)

t5 = fill(T5ForConditionalGeneration(T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                         decoder_start_token_id=0))).eval()  # fmt: skip
loss = t5(input_ids=tokens, labels=tokens).loss
loss.backward()
numbers["t5 loss"], numbers["t5 gradients"] = loss.item(), norm_of_gradients(t5)
print(json.dumps(numbers))
