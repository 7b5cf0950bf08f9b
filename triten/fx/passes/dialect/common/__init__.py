"""Passes for any set of operators (`torch.fx.passes.dialect.common`)."""
