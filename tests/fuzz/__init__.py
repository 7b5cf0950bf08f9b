"""Fuzz targets that run random cases: ``make fuzz``, `docs/fuzzing.md`.

A case depends only on the fuzz target and the seed. It runs in a child process, so a crash or a hang is a
finding and does not end the run. The search shrinks a finding while its kind stays the same and prints it as
a program that can be pasted. Fixed findings are stored in `found/`; the tests run them again. The modules
are:

- `command`: the command line, its totals and exit status (``python -P -m triten.tests.fuzz --help``);
- `campaign`: the interface of a fuzz target, and the possible outcomes of a case;
- `campaigns`: a module or a folder for each fuzz target, and the table of them;
- `search`: thousands of cases of one fuzz target over several workers;
- `worker`: a child process as its parent sees it; `child`: the code inside that process;
- `minimize`: greedy shrinking of a case;
- `found_cases`: reading and writing `found/NAME.jsonl`.

PyTorch is an oracle for some fuzz targets, never a dependency: only their workers import it.
"""
