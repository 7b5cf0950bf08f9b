"""Changed files and their changed lines, against a commit or as given."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True)
class Change:
    """A changed file; `lines` are numbers in the new text, empty for a file that was removed."""

    path: str
    lines: tuple[int, ...]


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"git {' '.join(arguments)}: {done.stderr.strip()}; BASE=... names the commit to compare with"
        )
    return done.stdout


def changes_since(root: Path, base: str | None) -> list[Change]:
    """Return what differs between the working tree and the merge base of HEAD and `base`, new files included.

    Args:
        root: The root of the checkout.
        base: A commit; by default `main`.

    Raises:
        SystemExit: If Git does not know `base`.
    """
    common = _git(root, "merge-base", "HEAD", base or "main").strip()
    found = parse_diff(_git(root, "diff", "-U0", "--no-color", "--no-ext-diff", "-M", common))
    for path in _git(root, "ls-files", "--others", "--exclude-standard").splitlines():
        if (root / path).is_file():
            count = (root / path).read_bytes().count(b"\n") + 1
            found.append(Change(path, tuple(range(1, count + 1))))
    return found


def parse_diff(text: str) -> list[Change]:
    """Return the changes of a unified diff without context.

    Example:
        >>> parse_diff("--- a/x.py\\n+++ b/x.py\\n@@ -1 +3,2 @@\\n-a\\n+b\\n+c\\n")
        [Change(path='x.py', lines=(3, 4))]
    """
    found: defaultdict[str, list[int]] = defaultdict(list)
    before = path = ""
    for line in text.splitlines():
        if line.startswith("--- "):
            before = line[6:]
        elif line.startswith("+++ "):
            path = before if line == "+++ /dev/null" else line[6:]
            found[path]
        elif hunk := HUNK.match(line):
            start, count = int(hunk[1]), int(hunk[2] or 1)
            # A deletion stands between two lines.
            found[path].extend(range(start, start + count) if count else (start, start + 1))
    return [Change(path, tuple(lines)) for path, lines in found.items()]
