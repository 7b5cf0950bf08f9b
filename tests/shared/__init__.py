"""What tests of several folders use, named for what it is: ``from triten.tests.shared.threads import together``.

* `allocator_model`: the caching allocator beside a model of it.
* `comparison`: whether tensors and arrays are near.
* `operands`: leaves of graphs, and options of optimizers.
* `pinned_model`: the allocator of page-locked memory beside a model of it.
* `processes`: programs that run in a process of their own.
* `thread_state`: what a thread's modes and keys are.
* `threads`: functions in other threads, at once or one, and waiting for what comes in its own time.

Fixtures do not belong here, but into a `conftest.py`; nor does what one folder alone uses: functions of that kind are
in a module of that folder. `tests` has no `__init__.py`, so that pytest does not import the root, which is the package
`triten`, a second time; its folders are found below `triten` all the same.
"""
