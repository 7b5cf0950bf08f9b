"""Conformance tests of every operator, module and optimizer in PyTorch's databases against PyTorch: ``make
conformance``.

PyTorch is the oracle, never a dependency. Only this folder's modules import it, inside the run; without it
the command ends with exit status 2. The modules are:

- `command`: the command line, its totals and exit status (``python -P -m triten.tests.conformance --help``);
- `operators`: the operators in the database, and the names of triten's;
- `conversion`: a sample's arguments as triten's, with their strides, offsets and shared memory;
- `outcome`: a call's result or error, and the differences of two outcomes;
- `nearness`, `ties`: accepted differences: rounding as accurate as PyTorch's, and indices of equal values;
- `rounding`: the errors of both relative to the float64 result; `rounding.txt` is its output;
- `speed`: each operator's speed relative to PyTorch's;
- `modes`: a module for each aspect of operators (values, refusals, dtypes, out=, in-place, layouts, strides,
  derivatives), and one for each other database (modules, optimizers);
- `known_differences.txt`: intended differences with their reasons, in these modes and in `tests/fuzz`.
"""
