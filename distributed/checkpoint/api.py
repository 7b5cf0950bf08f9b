"""`CheckpointException`: raised on all ranks if one of them could not save or load."""

from __future__ import annotations

import traceback

__all__ = ["CheckpointException"]

WrappedException = tuple[BaseException, "traceback.StackSummary | None"]


class CheckpointException(BaseException):
    """Saving or loading failed in some processes (`torch.distributed.checkpoint.api.CheckpointException`).

    All processes raise it, with the same failures. As in PyTorch it is no `Exception`.

    Args:
        msg: Description of the failed step.
        failures: the errors, and where they were raised, by the numbers of the processes.
    """

    def __init__(self, msg: str, failures: dict[int, WrappedException]) -> None:
        super().__init__(msg, failures)
        self._failures = failures

    @property
    def failures(self) -> dict[int, WrappedException]:
        """Errors with their tracebacks, by rank."""
        return self._failures

    def __str__(self) -> str:
        lines = [f"CheckpointException: step '{self.args[0]}' failed on ranks {sorted(self._failures)}\n"]
        for rank, (error, summary) in sorted(self._failures.items()):
            lines.append(f"Traceback (most recent call last): (RANK {rank})\n")
            if summary is not None:
                lines += traceback.format_list(summary)
            lines += traceback.format_exception_only(type(error), error)
        return "".join(lines)


def wrapped(error: BaseException) -> WrappedException:
    """Return an error in a form that can be sent, with its traceback."""
    import pickle

    summary = traceback.StackSummary.from_list(
        [
            (each.filename, each.lineno or 0, each.name, each.line)
            for each in traceback.extract_tb(error.__traceback__)
        ]
    )
    try:
        sent = pickle.loads(pickle.dumps(error))
    except Exception:
        sent = None
    # An error that does not survive pickling is sent as its text.
    return (error if type(sent) is type(error) else RuntimeError(f"{type(error).__name__}: {error}")), summary
