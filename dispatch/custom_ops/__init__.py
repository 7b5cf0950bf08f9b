"""User-defined operators, as `tt.library` offers them: tools to define, extend and test an operator.

`custom_op` is the decorator, `registration` adds to a named operator, `opcheck` tests one, and `pointwise_kernels` is
the pointwise layer. `fake_context` and `user_function` run a user's functions. Other code does not belong here.
"""
