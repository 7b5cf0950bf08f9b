"""Selection of the tests that a change can reach: `python -m triten.tests.affected`, or `make affected`.

- `tree`: modules, definitions and imports of the checkout, read from its syntax trees.
- `operators`: the operators that a definition, a kernel's module, a formula or a YAML entry serves.
- `changes`: the changed lines of each file, from Git.
- `selection`: test files in order of relevance, up to a budget of CPU time.
- `plugin`: pytest's side, which shortens tables of operators and measures files.
- `costs.json`: the CPU seconds of each test file.

The selection is a ranking and not a proof. A change of a module on which most of the package depends adds the
representative tests of `quick.txt`, which `make test-quick` runs.
"""
