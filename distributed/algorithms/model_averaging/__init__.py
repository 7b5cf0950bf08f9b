"""Averages of parameters (`torch.distributed.algorithms.model_averaging`)."""
