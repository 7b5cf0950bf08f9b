#!/usr/bin/env python3
"""Check commit messages: a subject `area: imperative` of at most 72 characters, and a body that says why.

A change of documentation or tests alone may explain itself. The script takes one of two forms:

    commit_messages.py FILE     the message in a file, as git's commit-msg hook gives it
    commit_messages.py          the commits after FIRST, as CI runs it

Exit status 1 if a message breaks a rule. Merges and reverts are not checked.
"""

import re
import subprocess
import sys
from pathlib import Path

FIRST = "df32d9e6d2a3de0b09fc23a038bbe02e50cf1f99"
SUBJECT = re.compile(r"[a-z0-9_.,/-]+(?:, [a-z0-9_.,/-]+)*: [a-z]")
NOT_IMPERATIVE = re.compile(r"[^:]*: (?:\w+ed|\w+ing|\w+s|the|a|an|it|no|new)\b")
IMPERATIVE = {
    "pass",
    "address",
    "express",
    "process",
    "discuss",
    "compress",
    "embed",
    "need",
    "seed",
    "feed",
    "speed",
    "bring",
    "string",
}
LONGEST = 72


def faults(message: str) -> list[str]:
    """Return what is wrong with a message."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(("Merge ", "Revert ")):
        return []
    found = []
    if len(subject) > LONGEST:
        found.append(f"the subject has {len(subject)} characters, more than {LONGEST}")
    if not SUBJECT.match(subject):
        found.append("the subject is not `area: imperative`, in lower case")
    elif NOT_IMPERATIVE.match(subject) and subject.split(": ", 1)[1].split()[0] not in IMPERATIVE:
        found.append("the subject does not begin with a verb in the imperative")
    if len(lines) > 1 and lines[1].strip():
        found.append("a blank line is missing after the subject")
    if not subject.startswith(("docs: ", "tests: ")) and not any(line.strip() for line in lines[1:]):
        found.append("a body that says why is missing")
    return found


def git(*args: str) -> str:
    """Return what git prints."""
    return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout


def new_commits() -> list[str]:
    """Return the commits after FIRST; none in a clone that does not have FIRST."""
    known = subprocess.run(["git", "merge-base", "--is-ancestor", FIRST, "HEAD"], capture_output=True)
    return git("rev-list", "--no-merges", f"{FIRST}..HEAD").split() if known.returncode == 0 else []


def main() -> int:
    """Print the faults of each message."""
    if len(sys.argv) > 1:
        messages = {"this message": Path(sys.argv[1]).read_text(encoding="utf-8")}
    else:
        messages = {commit[:9]: git("log", "-1", "--format=%B", commit) for commit in new_commits()}
    failed = 0
    for name, message in messages.items():
        for fault in faults(message):
            print(f"{name}: {fault}: {message.splitlines()[0] if message else ''}")
            failed = 1
    print(f"{len(messages)} commit messages checked")
    return failed


if __name__ == "__main__":
    sys.exit(main())
