"""Passes over graphs of one set of operators (`torch.fx.passes.dialect`)."""
