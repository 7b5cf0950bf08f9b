"""Campaigns that look for faults with drawn cases: ``make fuzz``, `docs/fuzzing.md`.

A case is a function of campaign and seed alone. It runs in a child process, so that a crash or a hang is a finding and
not the end of the run; a finding is made smaller while it stays the same kind, printed as a program that can be pasted,
and stored in `found/`, whose cases the tests run again. What lives here:

* `command`: the command line, its totals and exit status (``python -P -m triten.tests.fuzz --help``);
* `campaign`: what a campaign is, and what a case may come to;
* `campaigns`: a module, or a folder, for each campaign, and the table of them;
* `search`: cases by the thousand, of one campaign, over several workers;
* `worker`: a child process as its parent sees it; `child`: what runs inside it;
* `minimize`: greedy shrinking of a case;
* `found_cases`: reading and writing `found/NAME.jsonl`.

PyTorch is an oracle for some campaigns, never a dependency: only their workers import it.
"""
