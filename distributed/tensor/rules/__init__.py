"""Sharding rules: for each operator, the possible placements of its tensors along one mesh dimension.

`rule` defines a rule, and `table` looks up the rule of an operator. Every other module has the rules of an
operator family in a table `RULES`, one line per operator. Rules take an `Invocation`: an operator's arguments
with specs instead of tensors, and its results' shapes. No rule communicates, or depends on meshes of several
dimensions.
"""
