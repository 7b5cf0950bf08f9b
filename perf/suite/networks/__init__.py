"""Networks of programs that people train, written once for triten and PyTorch: what the suite `models` steps.

A network is a function of a library's module (`tt` or `torch`) that makes an `nn.Module`, whose call gives the logits.
A file holds networks of one kind; the table `workloads/models.py` says with which data and optimizer each is trained.
"""
