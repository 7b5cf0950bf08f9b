"""Published models and weights (`torch.hub`): repositories with a ``hubconf.py``, and files at URLs.

A repository's ``hubconf.py`` is a program, and `load` runs it: use only repositories whose authors you trust.
Downloads are kept in PyTorch's folder, ``$TORCH_HOME/hub``, by default ``~/.cache/torch/hub``.

Example::

    model = tt.hub.load("path/to/repository", "model", source="local", pretrained=True)
    weights = tt.hub.load_state_dict_from_url("https://example.org/weights-0a1b2c3d.pth", check_hash=True)
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import uuid
import warnings
import zipfile
from builtins import list as List
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from . import serialization
from .runtime.cache_files import make_own_folder
from .runtime.regular_file import open_regular

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""The beginning of a file's SHA-256 in its name: ``bfd8deac`` in ``resnet18-bfd8deac.pth``."""

CONFIGURATION = "hubconf.py"
TRUSTED_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")
CHUNK = 1 << 17
FOLDER_MODE = 0o755
"""Permissions of folders and, without those to execute, of files: programs come from them, whatever the umask is."""

TrustRepo = bool | Literal["check"]


class _Progress:
    """Prints how much of a download there is, where `tqdm` is not installed."""

    def __init__(self, total: int | None = None, disable: bool = False, **_: Any) -> None:
        self.total = total
        self.disable = disable
        self.count = 0

    def update(self, n: int) -> None:
        """Count so many bytes more."""
        self.count += n
        if not self.disable:
            done = f"{100 * self.count / self.total:.1f}%" if self.total else f"{self.count:.1f} bytes"
            sys.stderr.write(f"\r{done}")
            sys.stderr.flush()

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if not self.disable:
            sys.stderr.write("\n")


tqdm: Any
try:
    tqdm = importlib.import_module("tqdm").tqdm
except ModuleNotFoundError:
    tqdm = _Progress


# Folders

_hub_dir: str | None = None


def _get_torch_home() -> str:
    cache = os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.expanduser(os.getenv("TORCH_HOME", cache))


def get_dir() -> str:
    """Return the folder of repositories and weights: the one given to `set_dir`, or ``$TORCH_HOME/hub``
    (`torch.hub.get_dir`).

    ``TORCH_HOME`` defaults to ``$XDG_CACHE_HOME/torch``, and ``XDG_CACHE_HOME`` to ``~/.cache``.
    """
    if os.getenv("TORCH_HUB"):
        warnings.warn("TORCH_HUB is deprecated, please use env TORCH_HOME instead", stacklevel=2)
    return os.path.join(_get_torch_home(), "hub") if _hub_dir is None else _hub_dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep repositories and weights in another folder (`torch.hub.set_dir`)."""
    global _hub_dir
    _hub_dir = os.path.expanduser(os.fspath(d))


# Files


def download_url_to_file(
    url: str, dst: str | os.PathLike[str], hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download a file (`torch.hub.download_url_to_file`). An existing `dst` stays until the download is complete.

    Args:
        url: The URL; ``file://`` is supported too.
        dst: The file to write.
        hash_prefix: The prefix of its SHA-256, in hexadecimal. Default: None, no check.
        progress: If True, print the progress. Default: True.

    Raises:
        URLError: The URL cannot be fetched.
        RuntimeError: The hash differs. Nothing was written.
    """
    target = os.path.expanduser(os.fspath(dst))
    part = f"{target}.{uuid.uuid4().hex}.partial"
    digest = hashlib.sha256()
    try:
        with (
            open_regular(part, "xb") as file,
            urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as response,
        ):
            length = response.headers.get("Content-Length")
            total = None if length is None else int(length)
            with tqdm(
                total=total, disable=not progress, unit="B", unit_scale=True, unit_divisor=1024
            ) as shown:
                while chunk := response.read(CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    shown.update(len(chunk))
        actual = digest.hexdigest()
        if hash_prefix is not None and not actual.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{actual}")')
        os.replace(part, target)
    finally:
        if os.path.exists(part):
            os.remove(part)


def load_state_dict_from_url(
    url: str,
    model_dir: str | os.PathLike[str] | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Download a file once, and load it by `tt.load` (`torch.hub.load_state_dict_from_url`).

    Args:
        url: The URL of the file.
        model_dir: The folder to keep it in. Default: the folder ``checkpoints`` of `get_dir`.
        map_location: The device, as in `tt.load`.
        progress: If True, print the progress. Default: True.
        check_hash: If True, the file's name ends in a prefix of its SHA-256, as in ``resnet18-bfd8deac.pth``, which is
            checked after downloading. Default: False.
        file_name: The name in `model_dir`. Default: the name in the URL.
        weights_only: If True, refuse files that name anything but tensors and containers. If False, loading a file
            runs the code that its author put there. Default: False.

    Raises:
        URLError: The URL cannot be fetched.
        RuntimeError: The hash differs from the one in the name.
    """
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else os.fspath(model_dir)
    make_own_folder(folder, FOLDER_MODE)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        hashed = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, hashed.group(1) if hashed else None, progress)
    if not _is_one_zipped_file(path):
        return serialization.load(path, map_location=map_location, weights_only=weights_only)  # type: ignore[no-any-return]
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(dir=folder) as inside:
        _safe_extract_zip(archive, inside)
        unpacked = os.path.join(inside, archive.infolist()[0].filename)
        return serialization.load(unpacked, map_location=map_location, weights_only=weights_only)  # type: ignore[no-any-return]


def _is_one_zipped_file(path: str) -> bool:
    """Return whether a file is a zip of a single weights file, rather than an archive of `tt.save`."""
    with open_regular(path) as file:
        if not zipfile.is_zipfile(file):
            return False
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
    return len(members) == 1 and not members[0].is_dir()


def _safe_extract_zip(archive: zipfile.ZipFile, folder: str | os.PathLike[str]) -> None:
    """Unpack an archive. Raises ValueError for one with a member that would lie outside the folder; nothing is unpacked
    then.
    """
    root = Path(folder).resolve()
    for member in archive.infolist():
        name = os.path.normpath(member.filename)
        if name.startswith(("/", "\\")) or re.match("[A-Za-z]:", name):
            raise ValueError(f"Archive entry has absolute path: {member.filename}")
        if ".." in re.split(r"[/\\]", name):
            raise ValueError(f"Archive entry contains directory traversal: {member.filename}")
        if not (root / name).resolve().is_relative_to(root):
            raise ValueError(f"Archive entry escapes target directory: {member.filename}")
    archive.extractall(root)


# Repositories


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: TrustRepo = "check",
    verbose: bool = True,
) -> List[str]:
    """Return the names of a repository's entry points (`torch.hub.list`).

    Args:
        github: ``owner/name``, or ``owner/name:ref`` with a branch or tag.
        force_reload: If True, download the repository even if it exists. Default: False.
        skip_validation: If True, accept a ref that may belong to a fork. Default: False.
        trust_repo: If True, trust the authors. ``"check"`` asks the user about unknown authors, False always asks.
            Default: ``"check"``.
        verbose: If True, report when an existing download is used. Default: True.
    """
    folder = _repository(github, force_reload, trust_repo, verbose, skip_validation)
    with _configuration(folder) as module:
        return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: TrustRepo = "check",
) -> str | None:
    """Return the docstring of a repository's entry point (`torch.hub.help`). See `list` for the arguments."""
    folder = _repository(github, force_reload, trust_repo, True, skip_validation)
    with _configuration(folder) as module:
        return _entry_point(module, model).__doc__


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: TrustRepo = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call an entry point of a repository and return its result (`torch.hub.load`).

    Args:
        repo_or_dir: A folder with a ``hubconf.py`` if `source` is ``"local"``, else ``owner/name[:ref]`` on GitHub.
        model: The name of the entry point, a function in ``hubconf.py``.
        *args, **kwargs: Its arguments.
        source: ``"local"`` or ``"github"``. Default: ``"github"``.
        trust_repo, force_reload, verbose, skip_validation: See `list`; ignored for a local folder.

    Raises:
        ValueError: The source is unknown, or the repository has no such ref.
        RuntimeError: The entry point does not exist, or a dependency listed in ``hubconf.py`` is missing.
        URLError: The repository cannot be fetched.
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = os.fspath(repo_or_dir)
    if source == "github":
        folder = _repository(folder, force_reload, trust_repo, verbose, skip_validation)
    return _load_local(folder, model, *args, **kwargs)


def _load_local(folder: str, model: str, *args: Any, **kwargs: Any) -> Any:
    with _configuration(folder) as module:
        return _entry_point(module, model)(*args, **kwargs)


@contextmanager
def _configuration(folder: str) -> Iterator[ModuleType]:
    """Import a repository's ``hubconf.py``; imports inside the block find the repository's modules."""
    sys.path.insert(0, folder)
    try:
        path = os.path.join(folder, CONFIGURATION)
        open_regular(path).close()  # the import would wait for a FIFO
        spec = importlib.util.spec_from_file_location(CONFIGURATION, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(folder)


def _entry_point(module: ModuleType, name: str) -> Callable[..., Any]:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [
        package
        for package in getattr(module, "dependencies", None) or ()
        if importlib.util.find_spec(package) is None
    ]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    function: Any = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function  # type: ignore[no-any-return]


def _repository(
    github: str, force_reload: bool, trust_repo: TrustRepo, verbose: bool, skip_validation: bool
) -> str:
    """Return the folder of a GitHub repository, after downloading it if needed."""
    make_own_folder(get_dir(), FOLDER_MODE)
    owner, name, ref = _parse_repo_info(github)
    folder_name = f"{owner}_{name}_{ref.replace('/', '_')}"
    folder = os.path.join(get_dir(), folder_name)
    _check_repo_is_trusted(owner, name, folder_name, trust_repo)
    if os.path.exists(folder) and not force_reload:
        if verbose:
            sys.stderr.write(f"Using cache found in {folder}\n")
        return folder
    if not skip_validation:
        _validate_not_a_forked_repo(owner, name, ref)
    with tempfile.TemporaryDirectory(dir=get_dir()) as temporary_folder:
        file = os.path.join(temporary_folder, "archive.zip")
        url = _git_archive_link(owner, name, ref)
        sys.stdout.write(f'Downloading: "{url}" to {file}\n')
        try:
            download_url_to_file(url, file, progress=False)
        except HTTPError as error:
            if error.code != 300:
                raise
            warnings.warn(
                f"The ref {ref} is ambiguous. Perhaps it is both a tag and a branch in the repo? It is taken for a "
                "branch. You can say which by passing refs/heads/branch_name or refs/tags/tag_name as the ref, perhaps "
                "with skip_validation=True.",
                stacklevel=3,
            )
            download_url_to_file(_git_archive_link(owner, name, f"refs/heads/{ref}"), file, progress=False)
        unpacked = os.path.join(temporary_folder, "unpacked")
        with zipfile.ZipFile(file) as archive:
            _safe_extract_zip(archive, unpacked)
        for subfolder, folders, files in os.walk(unpacked):
            # Python would make it with the permissions that the umask leaves.
            if any(each.endswith(".py") for each in files) and "__pycache__" not in folders:
                os.mkdir(os.path.join(subfolder, "__pycache__"))
                folders.append("__pycache__")
            for each in (*folders, *files):
                path = os.path.join(subfolder, each)
                os.chmod(path, os.stat(path).st_mode & FOLDER_MODE)
        within = os.listdir(unpacked)
        if len(within) != 1:
            raise ValueError(f"{url}: expected an archive of one folder, got {sorted(within)}")
        if os.path.exists(folder):
            shutil.rmtree(folder)
        shutil.move(os.path.join(unpacked, within[0]), folder)
    return folder


def _git_archive_link(owner: str, name: str, ref: str) -> str:
    return f"https://github.com/{owner}/{name}/zipball/{ref}"


def _parse_repo_info(github: str) -> tuple[str, str, str]:
    """Return owner, name and ref of a repository. The default ref is main, or master if main does not exist."""
    repository, _, ref = github.partition(":")
    owner, name = repository.split("/")
    if ref:
        return owner, name, ref
    try:
        with urlopen(f"https://github.com/{owner}/{name}/tree/main/"):
            return owner, name, "main"
    except HTTPError as error:
        if error.code != 404:
            raise
        return owner, name, "master"
    except URLError as error:
        for ref in ("main", "master"):
            if os.path.exists(os.path.join(get_dir(), f"{owner}_{name}_{ref}")):
                return owner, name, ref
        raise RuntimeError(
            f"It looks like there is no internet connection and the repo could not be found in the cache ({get_dir()})"
        ) from error


def _read_url(request: str | Request) -> str:
    with urlopen(request) as response:
        return str(response.read().decode(response.headers.get_content_charset("utf-8")))


def _validate_not_a_forked_repo(owner: str, name: str, ref: str) -> None:
    """Raise ValueError for a ref that is no branch or tag of the repository: GitHub serves those of its forks too."""
    headers = {"Accept": "application/vnd.github.v3+json"}
    token = os.environ.get("GITHUB_TOKEN")
    if token is not None:
        headers["Authorization"] = f"token {token}"
    for kind in ("branches", "tags"):
        page = 1
        while True:
            url = f"https://api.github.com/repos/{owner}/{name}/{kind}?per_page=100&page={page}"
            try:
                text = _read_url(Request(url, headers=headers))
            except HTTPError:
                if headers.pop("Authorization", None) is None:
                    raise
                text = _read_url(Request(url, headers=headers))
            refs = json.loads(text)
            if any(each["name"] == ref or each["commit"]["sha"].startswith(ref) for each in refs):
                return
            if not refs:
                break
            page += 1
    raise ValueError(
        f"Cannot find {ref} in https://github.com/{owner}/{name}. If it's a commit from a forked repo, please call "
        "hub.load() with forked repo directly."
    )


def _check_repo_is_trusted(owner: str, name: str, folder_name: str, trust_repo: TrustRepo) -> None:
    """Ask the user about a repository that is not known. Raises an error where the answer is no."""
    record = Path(get_dir(), "trusted_list")
    text = ""
    if record.exists():
        with open_regular(record) as file:
            text = file.read().decode()
    known = text.split("\n")
    repository = f"{owner}_{name}"
    trusted = (
        repository in known or os.path.isdir(os.path.join(get_dir(), folder_name)) or owner in TRUSTED_OWNERS
    )
    if trust_repo is False or (trust_repo == "check" and not trusted):
        answer = input(
            f"The repository {repository} does not belong to the list of trusted repositories and as such cannot be "
            "downloaded. Do you trust this repository and wish to add it to the trusted list of repositories (y/N)?"
        ).lower()
        if answer in ("n", "no", ""):
            raise Exception("Untrusted repository.")
        if answer not in ("y", "yes"):
            raise ValueError(f"Unrecognized response {answer}.")
        if trusted:
            print("The repository is already trusted.")
    if not trusted:
        with open_regular(record, "ab") as file:
            file.write(f"{repository}\n".encode())
