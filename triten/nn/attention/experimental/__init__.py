"""Kinds of attention whose interface may change (`torch.nn.attention.experimental`): keys in pages."""
