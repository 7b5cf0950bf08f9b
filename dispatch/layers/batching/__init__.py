"""Batching rules: each operator on a whole batch at once, by families (functorch BatchRules*.cpp).

A rule is ``rule(batch, dims, *args) -> (result, out_dims)``: `args` are the operator's in schema order, with the
tensors of one vmap level unwrapped. `dims` gives the mapped dimension of each argument: None for none, a tuple for a
list of tensors. `out_dims` gives the mapped dimensions of the results. Rules call operators on values that may require
grad or be batched by an outer level. Kernels do not belong here.

`RULES` names the rules by operator, `LOOPED` the operators that run example by example, `REFUSED` those that cannot be
mapped, with the reason. The dispatcher calls `kernel.py`.
"""
