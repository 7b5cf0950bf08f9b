"""Infrastructure of graph passes (`torch.fx.passes.infra`)."""
