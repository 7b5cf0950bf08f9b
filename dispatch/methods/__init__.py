"""Methods of `Tensor` written by hand, a mixin for each concern; those of operators are generated.

Whatever is a method only because PyTorch spells it so belongs here: conversions, indexing, printing, pickling,
autograd's attributes. Nothing below imports this folder.
"""
