"""How operators compute on parts of tensors: for each, the ways in which its tensors may lie along one mesh dimension.

`rule` says what a rule is, `table` finds the one of an operator; every other module has a family's rules in a table
`RULES`, a line for each operator. What they take is an `Invocation`: an operator's arguments with specs in the place of
tensors, and its results' shapes. Nothing here communicates, or knows of meshes of several dimensions.
"""
