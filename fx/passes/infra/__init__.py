"""What passes are made of (`torch.fx.passes.infra`)."""
