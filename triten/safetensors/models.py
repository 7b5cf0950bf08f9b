"""Files of modules, whose parameters may share memory: `save_model`, `load_model`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ..dispatch.tensor import Tensor
from ..nn import Module
from ..runtime.device import DeviceLike
from ..runtime.traceback_filter import api_boundary
from .opening import load_file
from .saving import covers_storage, save_file, sharing


@api_boundary
def save_model(
    model: Module,
    filename: str | os.PathLike[str],
    metadata: dict[str, str] | None = None,
    force_contiguous: bool = True,
) -> None:
    """Write a module's parameters and buffers to a file (`safetensors.torch.save_model`).

    Tensors that share memory are written once. The metadata map each omitted name to the name that is written.

    Args:
        model: The module.
        filename: The path of the file.
        metadata: Strings to store in the header, by key.
        force_contiguous: If True, write contiguous copies of non-contiguous tensors; if False, raise ValueError for
            them. Default: True.

    Raises:
        RuntimeError: No tensor among those that share a storage covers all of it.
        ValueError: A tensor is not contiguous and `force_contiguous` is False, or the format does not have its dtype.

    Example:
        >>> import os, tempfile, triten as tt
        >>> from triten.safetensors import load_model, save_model
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_model(tt.nn.Linear(2, 3), path)
        >>> load_model(tt.nn.Linear(2, 3), path)
        (set(), [])
    """
    tensors: dict[str, Tensor] = dict(model.state_dict())
    texts = dict(metadata or {})
    for kept_name, omitted in _duplicates(tensors).items():
        for name in omitted:
            texts.setdefault(name, kept_name)
            del tensors[name]
    if force_contiguous:
        tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    try:
        save_file(tensors, filename, texts or None if metadata is None else texts)
    except ValueError as error:
        raise ValueError(
            f"{error} Or use save_model(..., force_contiguous=True), read the docs for potential caveats."
        ) from None


@api_boundary
def load_model(
    model: Module,
    filename: str | os.PathLike[str],
    strict: bool = True,
    device: DeviceLike = "cpu",
    *,
    backend: str = "mmap",
) -> tuple[set[str], list[str]]:
    """Read a module's parameters and buffers from a file (`safetensors.torch.load_model`).

    Args:
        model: The module; its tensors are overwritten in-place.
        filename: The path of the file.
        strict: If True, raise RuntimeError for missing and unexpected names. Default: True.
        device: The device that tensors are read to before they are copied to the module. Default: CPU.
        backend: As for `safe_open`.

    Returns:
        The missing names, which only the module has, and the unexpected names, which only the file has.

    Raises:
        RuntimeError: Shapes differ, or names do with `strict`.
        SafetensorError: The file is not in the format, or is truncated.

    Example:
        >>> import os, tempfile, triten as tt
        >>> from triten.safetensors import load_model, save_file
        >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        >>> save_file({"weight": tt.ones(3, 2)}, path)
        >>> load_model(tt.nn.Linear(2, 3), path, strict=False)
        ({'bias'}, [])
    """
    tensors = load_file(filename, device=device, backend=backend)
    duplicates = _duplicates(dict(model.state_dict()), preferred=tensors)
    result = model.load_state_dict(tensors, strict=False)
    missing, unexpected = set(result.missing_keys), list(result.unexpected_keys)
    for omitted in duplicates.values():
        for name in omitted:
            if name in missing:
                missing.remove(name)
            else:
                unexpected.append(name)
    if strict and (missing or unexpected):
        text = f"Error(s) in loading state_dict for {type(model).__name__}:"
        if missing:
            text += "\n    Missing key(s) in state_dict: " + ", ".join(
                f'"{name}"' for name in sorted(missing)
            )
        if unexpected:
            text += "\n    Unexpected key(s) in state_dict: " + ", ".join(
                f'"{name}"' for name in sorted(unexpected)
            )
        raise RuntimeError(text)
    return missing, unexpected


def _duplicates(tensors: Mapping[str, Tensor], preferred: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return the omitted names of tensors that share memory, by the name that is kept.

    The kept name is the first whose tensor covers the whole storage, with names in `preferred` before others.
    """
    omitted_by_name: dict[str, list[str]] = {}
    preferred_names = set(preferred)
    for names in sharing(tensors):
        complete = {name for name in names if covers_storage(tensors[name])}
        if len(names) == 1 and not complete:
            complete = names
        if not complete:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no suitable name to keep for "
                f"saving amongst: {names}. None is covering the entire storage. Refusing to save/load the model since "
                "you could be storing much more memory than needed."
            )
        kept_name = min(complete & preferred_names or complete)
        if len(names) > 1:
            omitted_by_name[kept_name] = sorted(names - {kept_name})
    return omitted_by_name
