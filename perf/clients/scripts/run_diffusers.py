"""A small UNet of diffusers: loss and gradients under a DDPM scheduler, and three steps of denoising by DDIM."""

import json

import torch
from deterministic import fill, normal
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel

model = fill(UNet2DModel(
    sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
    attention_head_dim=4, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
))  # fmt: skip
image, noise, steps = normal(2, 3, 8, 8), normal(2, 3, 8, 8), torch.tensor([10, 400])
noisy = DDPMScheduler().add_noise(image, noise, steps)
loss = torch.nn.functional.mse_loss(model(noisy, steps).sample, noise)
loss.backward()
gradients = sum(p.grad.double().square().sum() for p in model.parameters()).sqrt().item()

scheduler = DDIMScheduler()
scheduler.set_timesteps(3)
sample = noise
with torch.no_grad():
    for step in scheduler.timesteps:
        sample = scheduler.step(model(sample, step).sample, step, sample).prev_sample
print(json.dumps({"loss": loss.item(), "gradients": gradients, "sample": sample.abs().sum().item()}))
