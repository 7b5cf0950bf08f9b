"""Replacement of triten's operators by FlagGems': `flag_gems.use_gems` registers them with `Library.impl`."""

import os

os.environ.setdefault("GEMS_VENDOR", "nvidia")  # otherwise the import looks for a vendor's command

import flag_gems
import torch

torch.manual_seed(0)
x, y = torch.randn(4, 33), torch.randn(4, 33)
a, b = x.cuda(), y.cuda()
with flag_gems.use_gems():
    results = [a + b, a.exp(), torch.softmax(a, 1), a.sum(), a.amax(1), torch.where(a > b, a, b), a @ b.T]
expected = [x + y, x.exp(), torch.softmax(x, 1), x.sum(), x.amax(1), torch.where(x > y, x, y), x @ y.T]
for got, want in zip(results, expected, strict=True):
    torch.testing.assert_close(got.cpu(), want, atol=1e-3, rtol=1e-3)
