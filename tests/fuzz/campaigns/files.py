"""Mutated files of every format that the library reads: each loads the right values or raises a documented
error.

Mutations change bytes or structure. Structural mutations have correct lengths and checksums, so they reach
the code behind those checks. A reader may raise only the documented errors. It may not take long, use
excessive memory, write a file, start a process, or access memory outside its own tensors.
"""

import re
import tempfile
from pathlib import Path

from triten.tests.fuzz.campaign import AGREED, REFUSED_ALIKE, Campaign, Finding

MAX_CHANGES = 4


class Files(Campaign):
    """Fuzz target for files; only the workers import the readers."""

    name = "files"
    limit = 90.0

    def __init__(self):
        self._expected = {}

    def prepare(self):
        """Import what readers import when they are first called: none of it is the files' doing."""
        from triten.tests.fuzz.files import samples, warm_up

        warm_up.warm_up()
        samples.programs()

    def draw(self, rng):
        from triten.tests.fuzz.files import changes
        from triten.tests.fuzz.files.formats import FORMATS

        form = rng.choice(list(FORMATS))
        sample = rng.choice(list(FORMATS[form].samples()))
        files = dict(FORMATS[form].samples()[sample])
        name = rng.choice(list(files))
        made = []
        for _ in range(rng.choice([1, 1, 1, 2, 3, MAX_CHANGES])):
            change = changes.draw(rng, files[name])
            files[name] = changes.apply(files[name], change)
            made.append(change)
        return {"format": form, "sample": sample, "file": name, "changes": made}

    def run(self, case):
        from triten.tests.fuzz.files.formats import FORMATS

        form = FORMATS[case["format"]]
        reading = self._read(form, _files(case))
        if reading.is_fault:
            return Finding(reading.kind, f"{case['format']}: {reading.message}")
        expected = case.get("expected") or (self._expected_of(case, form) if _is_raw(case, form) else None)
        if reading.kind == "value" and expected is not None and reading.digest != expected:
            return Finding("wrong value", f"{case['format']}: damage that checksums are of is not noticed")
        return AGREED if reading.kind == "value" else REFUSED_ALIKE

    def smaller(self, case):
        changes = case.get("changes", [])
        for at in range(len(changes)):
            if len(changes) > 1:
                yield case | {"changes": changes[:at] + changes[at + 1 :]}

    def describe(self, case):
        if "data" in case:
            return f"Files().run({case!r})"
        lines = [f"data = samples of {case['format']!r}: {case['sample']!r}, file {case['file']!r}"]
        lines += [f"data = changes.apply(data, {change!r})" for change in case["changes"]]
        return "\n".join([*lines, f"FORMATS[{case['format']!r}].read(folder with the file)"])

    def family(self, case, finding):
        message = re.sub(r"'[^']*'|\"[^\"]*\"|[0-9a-f]{8,}|[-+]?[0-9][0-9.e+-]*", "N", finding.message)
        return f"{finding.kind}: {message[:90]}"

    def record(self, case):
        """Return the case with its files' bytes, which later versions may no longer write."""
        from triten.tests.fuzz.files import samples
        from triten.tests.fuzz.files.formats import FORMATS

        form = FORMATS[case["format"]]
        recorded = {"format": case["format"], "data": samples.compressed(_files(case))}
        if _is_raw(case, form):
            recorded["expected"] = self._expected_of(case, form)
        return recorded

    def _expected_of(self, case, form):
        key = case["format"], case["sample"]
        if key not in self._expected:
            self._expected[key] = self._read(form, form.samples()[case["sample"]]).digest
        return self._expected[key]

    def _read(self, form, files):
        from triten.tests.fuzz.files.guarded import attempt

        with tempfile.TemporaryDirectory(prefix="triten-fuzz-files-") as folder:
            path = Path(folder)
            for name, data in files.items():
                (path / name).write_bytes(data)
            return attempt(lambda: form.read(path), sum(map(len, files.values())), form.documented)


def _is_raw(case, form):
    """Return True if a case changed only bytes, in a file whose checksums cover all of them."""
    return (
        form.is_checked and "changes" in case and all(each[:2] == ["bytes", []] for each in case["changes"])
    )


def _files(case):
    from triten.tests.fuzz.files import changes, samples
    from triten.tests.fuzz.files.formats import FORMATS

    if "data" in case:
        return samples.decompressed(case["data"])
    files = dict(FORMATS[case["format"]].samples()[case["sample"]])
    for change in case["changes"]:
        files[case["file"]] = changes.apply(files[case["file"]], change)
    return files
