"""Signature of an exported graph: the role of each input and output (torch/export/graph_signature.py)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class InputKind(enum.Enum):
    """Kind of a graph input (`torch.export.graph_signature.InputKind`)."""

    USER_INPUT = "user_input"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT_TENSOR = "constant_tensor"


class OutputKind(enum.Enum):
    """Kind of a graph output (`torch.export.graph_signature.OutputKind`)."""

    USER_OUTPUT = "user_output"
    BUFFER_MUTATION = "buffer_mutation"
    PARAMETER_MUTATION = "parameter_mutation"
    USER_INPUT_MUTATION = "user_input_mutation"


@dataclass(frozen=True)
class TensorArgument:
    """Tensor input or output of the graph, by its node's name."""

    name: str


@dataclass(frozen=True)
class ConstantArgument:
    """An argument or a result that is no tensor. Its value is fixed in the graph."""

    name: str
    value: int | float | complex | bool | str | None


@dataclass(frozen=True)
class InputSpec:
    """Input of the graph (`torch.export.graph_signature.InputSpec`).

    Attributes:
        kind: Its kind.
        arg: Its node's name, or its value.
        target: The name of the parameter, buffer or constant; None for a user input.
        persistent: For a buffer, True if it is in the state dict.
    """

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None
    persistent: bool | None = None


@dataclass(frozen=True)
class OutputSpec:
    """Output of the graph (`torch.export.graph_signature.OutputSpec`).

    Attributes:
        kind: Its kind; a mutation is the written value.
        arg: Its node's name, or its value.
        target: For a mutation, the name of the buffer or parameter, or of the input's node.
    """

    kind: OutputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None


@dataclass(frozen=True)
class ExportGraphSignature:
    """Roles of the inputs and outputs of an exported graph, in order (`torch.export.ExportGraphSignature`).

    Parameters, buffers and constants come first among the inputs, mutations first among the outputs. Arguments that
    are not tensors have specs, and no node.

    Example:
        >>> import triten as tt
        >>> program = tt.export.export(tt.nn.Linear(2, 3), (tt.zeros(1, 2),))
        >>> program.graph_signature.inputs_to_parameters
        {'p_weight': 'weight', 'p_bias': 'bias'}
        >>> program.graph_signature.user_inputs
        ('input_1',)
    """

    input_specs: Sequence[InputSpec]
    output_specs: Sequence[OutputSpec]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Names of the buffers that are not in the state dict."""
        return tuple(
            [s.target or "" for s in self.input_specs if s.kind is InputKind.BUFFER and not s.persistent]
        )

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of the tensors that the module uses and that are neither parameters nor buffers."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Node name of each argument, or the value of one that is not a tensor."""
        return tuple([_name_or_value(s.arg) for s in self.input_specs if s.kind is InputKind.USER_INPUT])

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Node name of each result, or the value of one that is not a tensor."""
        return tuple([_name_or_value(s.arg) for s in self.output_specs if s.kind is OutputKind.USER_OUTPUT])

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """Parameters by the names of their nodes."""
        return self._inputs(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """Buffers by the names of their nodes."""
        return self._inputs(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        """Constants by the names of their nodes."""
        return self._inputs(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """Buffers that a call writes to, by the names of the nodes with the new values."""
        return self._outputs(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> dict[str, str]:
        """Parameters that a call writes to, by the names of the nodes with the new values."""
        return self._outputs(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> dict[str, str]:
        """Arguments that a call writes to, by the names of the nodes with the new values."""
        return self._outputs(OutputKind.USER_INPUT_MUTATION)

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple([spec.target or "" for spec in self.input_specs if spec.kind is kind])

    def _inputs(self, kind: InputKind) -> dict[str, str]:
        return {spec.arg.name: spec.target or "" for spec in self.input_specs if spec.kind is kind}

    def _outputs(self, kind: OutputKind) -> dict[str, str]:
        return {spec.arg.name: spec.target or "" for spec in self.output_specs if spec.kind is kind}


def _name_or_value(argument: TensorArgument | ConstantArgument) -> Any:
    return argument.name if isinstance(argument, TensorArgument) else argument.value
