"""The warning about modules whose source code differs from that of a file's writer."""


class SourceChangeWarning(Warning):
    """Warning of a module whose source code changed since it was pickled (`torch.serialization.SourceChangeWarning`).

    Programs filter it by its class. `tt.load` does not compare source code, and never emits it.
    """
