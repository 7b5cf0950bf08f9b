"""One operator asked in one mode: every case is made, and what went wrong is written down."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from torch.testing._internal.opinfo.core import OpInfo

from .conversion import OutsideError
from .known_differences import KnownDifference, reason_for
from .modes.mode import Mode, Settings
from .operators import MissingError, title
from .outcome import Difference, Tally, TimeUpError


def judge(
    operator: OpInfo,
    mode: Mode,
    settings: Settings,
    seconds: int,
    known: dict[tuple[str, str], KnownDifference],
) -> Tally:
    """Run `operator` in `mode`, for at most `seconds` (0 for no limit)."""
    tally = Tally(title(operator), mode.name)

    def find(label: str, text: str) -> None:
        expected = reason_for(known, mode.name, label, tally.operator)
        (tally.known if expected else tally.findings).append(f"case {tally.cases - 1}, {label}: {text}")

    try:
        with _limit(seconds):
            for label, check in mode.cases(operator, settings):
                tally.cases += 1
                try:
                    same_text = check()
                except OutsideError:
                    tally.outside += 1
                except MissingError as missing:
                    find(label, f"there is no {missing}")
                except Difference as difference:
                    find(label, str(difference))
                except Exception as error:  # whatever way of failing is a finding
                    find(label, f"{type(error).__name__}: {' '.join(str(error).split())[:160]}")
                else:
                    tally.passed += 1
                    tally.texts += same_text is not False
    except MissingError:
        tally.missing = True
    except TimeUpError:
        tally.findings.append(f"over {seconds} s after {tally.cases} cases")
    except Exception as error:  # the database's own generator
        tally.findings.append(f"samples: {type(error).__name__}: {error}")
    return tally


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeUpError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
