"""States of distributed models and optimizers (`torch.distributed.checkpoint`)."""
