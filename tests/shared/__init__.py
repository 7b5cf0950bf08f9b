"""Code that tests of several folders share, in modules named for their content.

Import it as ``from triten.tests.shared.threads import together``. The modules include:

- `allocator_model`: the caching allocator and a model of it;
- `comparison`: closeness of tensors and arrays;
- `operands`: leaves of graphs, and options of optimizers;
- `pinned_model`: the allocator of page-locked memory and a model of it;
- `processes`: programs that run in a separate process;
- `thread_state`: a thread's modes and keys;
- `package_files`: the source files of the package;
- `threads`: functions in other threads, concurrent or single, and waiting for asynchronous conditions.

Fixtures belong in a `conftest.py`. Functions that only one folder uses belong in a module of that folder.
"""
