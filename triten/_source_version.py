"""Version of a source tree, from its tags. The build takes `VERSION` from here, and checkouts at run time.

- At the tag ``v1.2.3`` it is ``1.2.3``.
- Five commits later it is ``1.2.4.dev5+g`` and the commit. Uncommitted changes append ``.dirty``.
- Before the first tag it is a development version of `FIRST`.
- An unpacked sdist has the version that it was built with.

The build executes this file alone, so it imports nothing of the package.
"""

from __future__ import annotations

import re
from pathlib import Path

FIRST = "0.1.0"
"""Version of the first tag."""
ROOT = Path(__file__).resolve().parents[1]
_DESCRIBED = re.compile(
    r"v(?P<release>\d+(?:\.\d+)*)-(?P<count>\d+)-(?P<commit>g[0-9a-f]+)(?P<dirty>-dirty)?"
)


def source_version(root: Path) -> str | None:
    """Return the version of a checkout or of an unpacked sdist; None for other folders."""
    if (root / ".git").exists():
        described = _git(root, "describe", "--tags", "--long", "--dirty", "--match", "v[0-9]*")
        if described is not None:
            return version_of(described)
        commit, count = (
            _git(root, "describe", "--always", "--dirty"),
            _git(root, "rev-list", "--count", "HEAD"),
        )
        if commit and count:
            return f"{FIRST}.dev{count}+g{commit.replace('-', '.')}"
    try:
        lines = (root / "PKG-INFO").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.removeprefix("Version: ") for line in lines if line.startswith("Version: ")), None)


def version_of(described: str) -> str | None:
    """Convert the output of ``git describe --long`` to a version of PEP 440; None for a tag that is no version.

    Example:
        >>> from triten._source_version import version_of
        >>> version_of("v0.2.0-0-g1234567"), version_of("v0.2.0-5-g1234567-dirty")
        ('0.2.0', '0.2.1.dev5+g1234567.dirty')
    """
    match = _DESCRIBED.fullmatch(described)
    if match is None:
        return None
    if match["count"] == "0" and not match["dirty"]:
        return match["release"]
    *parts, last = map(int, match["release"].split("."))
    coming = ".".join(map(str, (*parts, last + 1)))
    return f"{coming}.dev{match['count']}+{match['commit']}{'.dirty' if match['dirty'] else ''}"


def _git(root: Path, *arguments: str) -> str | None:
    import subprocess  # not with the package, which imports this file

    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True)
    except OSError:
        return None  # git is not installed
    return done.stdout.strip() if done.returncode == 0 else None


def __getattr__(name: str) -> str:
    """Compute `VERSION`, which the build asks for."""
    if name != "VERSION":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return source_version(ROOT) or f"{FIRST}.dev0"
