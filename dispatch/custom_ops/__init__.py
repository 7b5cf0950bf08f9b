"""Operators of a user's own, as `tt.library` offers them: what may live here is a way to make, extend or test one.

`custom_op` is the decorator, `registration` the functions that add to a named operator, `opcheck` the test of one,
`pointwise_kernels` the pointwise layer; `fake_context` and `user_function` are what a user's functions run in.
"""
