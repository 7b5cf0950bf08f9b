"""Batching rules: each operator on a whole batch at once, by families (functorch BatchRules*.cpp).

A rule is ``rule(batch, dims, *args) -> (result, out_dims)``: `args` are the operator's in schema order with the
tensors of one vmap level opened, `dims` says for each argument which dimension is mapped (None: none, a tuple for a
list of tensors), `out_dims` which dimensions of the results are. Rules call operators, on values that may require
grad or be batched by a level outside; kernels do not belong here.

`RULES` names the rules by operator, `LOOPED` the operators that run example by example, `REFUSED` those that cannot
be mapped, with the reason. `kernel.py` is what the dispatcher calls.
"""
