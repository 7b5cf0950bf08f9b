"""Mutation testing: random small faults that `make affected` must find, and one injected fault for each task.

- `mutants`: the faults that a Python file or a derivative formula can get.
- `areas`: the parts of the package that they are drawn from.
- `copies`: a copy of the checkout that gets a fault and runs its tests.
- `tasks`: an injected fault for each task of CONTRIBUTING.md, whose tests must fail.

`mutmut` and `cosmic-ray` do not fit. `mutmut` replaces functions by trampolines, so Triton would compile the
trampoline instead of the kernel. `cosmic-ray` has one test command for all mutants and changes files in place.
Neither mutates a formula in YAML and generates code from it.
"""
