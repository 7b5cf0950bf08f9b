"""Every operator, module and optimizer of PyTorch's databases, held against PyTorch itself: ``make conformance``.

PyTorch is the oracle, never a dependency: only this folder's modules import it, inside the run, and without it the
command ends with exit status 2. What lives here:

* `command`: the command line, its totals and exit status (``python -P -m triten.tests.conformance --help``);
* `operators`: which operators there are, and what ours is called;
* `conversion`: a sample's arguments as ours, with their strides, offsets and shared memory;
* `outcome`: what a call gave or raised, and where two outcomes differ;
* `nearness`, `ties`: differences that are none: of rounding, where ours is as near, and among equal values;
* `rounding`: how far each is from the float64 result where they differ; `rounding.txt` is what it printed;
* `speed`: how fast each operator is beside PyTorch's;
* `modes`: a module for each way of asking (values, refusals, dtypes, out=, in-place, layouts, strides,
  derivatives), and one for each other database (modules, optimizers);
* `known_differences.txt`: what differs on purpose, each with its reason, in these modes and in `tests/fuzz`.
"""
