"""Recurrent networks: a language model of LSTM layers, classifiers of sequences."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def language_model(library: ModuleType, vocabulary: int, width: int, layers: int) -> Any:
    """Next-token logits of an LSTM, as in PyTorch's example `word_language_model`."""
    nn = library.nn

    class LanguageModel(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Embedding(vocabulary, width)
            self.rnn = nn.LSTM(width, width, layers)
            self.decoder = nn.Linear(width, vocabulary)

        def forward(self, tokens: Any) -> Any:
            output, _ = self.rnn(self.encoder(tokens))
            return self.decoder(output).flatten(0, 1)

    return LanguageModel()


def sequence_classifier(
    library: ModuleType, layer: str, features: int, width: int, classes: int, layers: int = 1
) -> Any:
    """Logits from the last state of `nn.RNN`, `nn.GRU` or `nn.LSTM`, by name, over batches of sequences."""
    nn = library.nn

    class SequenceClassifier(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.rnn = getattr(nn, layer)(features, width, layers, batch_first=True)
            self.head = nn.Linear(width, classes)

        def forward(self, sequences: Any) -> Any:
            output, _ = self.rnn(sequences)
            return self.head(output[:, -1])

    return SequenceClassifier()
