"""`Module` and the layers: a file is a family, a layer has parameters and a `forward` of one call.

`module.py` is the base with its parts beside it (hooks, conversion, state). What computes is an operator, or a
function of `nn.functional`; nothing here does.
"""
