"""`tt.hub`: entry points of local folders, files at URLs of this machine, repositories from an archive on disk."""

import hashlib
import http.server
import io
import json
import os
import sys
import threading
import zipfile
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

import triten as tt
import triten.hub as hub

HUBCONF = '''
dependencies = ["json"]
from beside import SIZE as _SIZE

def linear(features, *, bias=True):
    """A layer."""
    import triten as tt
    return tt.nn.Linear(_SIZE, features, bias=bias)

def _inner():
    pass

number = 3
'''


@pytest.fixture(autouse=True)
def hub_dir(tmp_path, monkeypatch):
    """Yield an empty hub folder, with no access to the network."""
    monkeypatch.setattr(hub, "_hub_dir", None)
    for name in ("TORCH_HUB", "XDG_CACHE_HOME", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    yield tmp_path / "home" / "hub"
    sys.modules.pop("beside", None)


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "hubconf.py").write_text(HUBCONF)
    (folder / "beside.py").write_text("SIZE = 5")
    return folder


def test_a_local_repository_is_loaded_and_leaves_no_trace(repository):
    before = list(sys.path)
    model = hub.load(repository, "linear", 2, source="local", bias=False)
    assert (model.in_features, model.out_features, model.bias) == (5, 2, None)
    assert sys.path == before and "hubconf.py" not in sys.modules


@pytest.mark.parametrize(
    ("text", "model", "error", "message"),
    [
        (HUBCONF, "nobody", RuntimeError, "Cannot find callable nobody in hubconf"),
        (HUBCONF, "number", RuntimeError, "Cannot find callable number in hubconf"),
        (HUBCONF, 3, ValueError, "model should be a string of function name"),
        (
            "dependencies = ['no_such_package', 'json', 'nor_this']",
            "f",
            RuntimeError,
            "no_such_package, nor_this",
        ),
        ("def f(): raise KeyError('own')", "f", KeyError, "own"),
        ("1 / 0", "f", ZeroDivisionError, "division"),
    ],
)
def test_what_is_wrong_with_a_repository_is_said(repository, text, model, error, message):
    before = list(sys.path)
    (repository / "hubconf.py").write_text(text)
    with pytest.raises(error, match=message):
        hub.load(repository, model, source="local")
    assert sys.path == before


def test_sources_are_local_or_github(repository):
    with pytest.raises(ValueError, match=r'Unknown source: "gitlab"\. Allowed values: "github" \| "local"'):
        hub.load(repository, "linear", source="GitLab")
    with pytest.raises(FileNotFoundError):
        hub.load(repository / "nothing", "linear", source="local")


def test_folders_follow_the_environment(monkeypatch, tmp_path):
    assert hub.get_dir() == str(tmp_path / "home" / "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert hub.get_dir() == str(tmp_path / "cache" / "torch" / "hub")
    monkeypatch.setenv("TORCH_HUB", "x")
    with pytest.warns(UserWarning, match="TORCH_HUB is deprecated"):
        hub.get_dir()
    monkeypatch.delenv("TORCH_HUB")
    hub.set_dir("~/somewhere")
    assert hub.get_dir() == str(Path("~/somewhere").expanduser())


@pytest.fixture
def served(tmp_path):
    """Yield a folder, and the URL at which a local server serves its files."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        timeout = 20

        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(60)


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_a_file_is_downloaded_and_its_hash_is_checked(served, tmp_path, scheme, capsys):
    folder, url = served
    content = bytes(range(256)) * 2000
    (folder / "data.bin").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    source = f"{url}/data.bin" if scheme == "http" else (folder / "data.bin").as_uri()
    target = tmp_path / "got.bin"
    hub.download_url_to_file(source, target, digest[:10])
    assert target.read_bytes() == content and "100" in capsys.readouterr().err
    target.write_bytes(b"old")
    with pytest.raises(RuntimeError, match=f'invalid hash value \\(expected "0000", got "{digest}"\\)'):
        hub.download_url_to_file(source, target, "0000", progress=False)
    assert target.read_bytes() == b"old" and capsys.readouterr().err == ""
    assert not list(tmp_path.glob("*.partial"))


def test_what_cannot_be_fetched_leaves_nothing(served, tmp_path):
    _, url = served
    with pytest.raises(HTTPError):
        hub.download_url_to_file(f"{url}/nothing", tmp_path / "got.bin")
    with pytest.raises(URLError):
        hub.download_url_to_file("http://127.0.0.1:9/nothing", tmp_path / "got.bin")
    assert not list(tmp_path.glob("got*"))


def test_weights_are_downloaded_once(served, hub_dir, capsys):
    folder, url = served
    buffer = io.BytesIO()
    tt.save({"w": tt.arange(3.0)}, buffer)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    name = f"model-{digest[:8]}.pth"
    (folder / name).write_bytes(buffer.getvalue())
    state = hub.load_state_dict_from_url(
        f"{url}/{name}?x=1", check_hash=True, progress=False, weights_only=True
    )
    assert state["w"].tolist() == [0, 1, 2] and (hub_dir / "checkpoints" / name).exists()
    assert "Downloading" in capsys.readouterr().out
    (folder / name).unlink()
    state = hub.load_state_dict_from_url(f"{url}/{name}", map_location="meta")
    assert state["w"].is_meta and not capsys.readouterr().out


def test_weights_whose_name_lies_are_refused(served, tmp_path):
    folder, url = served
    (folder / "model-00000000.pth").write_bytes(b"x")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.load_state_dict_from_url(f"{url}/model-00000000.pth", tmp_path / "kept", check_hash=True)
    assert not list((tmp_path / "kept").iterdir())


def test_a_zipped_file_of_weights_is_unpacked(served, tmp_path):
    folder, url = served
    buffer = io.BytesIO()
    tt.save([tt.ones(2)], buffer)
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.writestr("model.pth", buffer.getvalue())
    (found,) = hub.load_state_dict_from_url(f"{url}/model.zip", tmp_path / "kept", progress=False)
    assert found.tolist() == [1, 1]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["model.zip"]


@pytest.fixture
def on_github(repository, tmp_path, monkeypatch):
    """Serve the repository as GitHub would: an archive of one folder."""
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in repository.iterdir():
            archive.write(file, f"me-repository-0a1b/{file.name}")
    monkeypatch.setattr(hub, "_git_archive_link", lambda owner, name, ref: path.as_uri())
    answers = {"branches?per_page=100&page=1": [{"name": "main", "commit": {"sha": "0a1b"}}]}

    def read(request):
        return json.dumps(answers.get(request.full_url.rpartition("/")[2], []))

    monkeypatch.setattr(hub, "_read_url", read)
    return path


def test_an_unpacked_repository_is_written_to_by_its_user_alone(on_github, hub_dir):
    before = os.umask(0)
    try:
        assert hub.load(
            "me/repository:main", "linear", 2, trust_repo=True, skip_validation=True, verbose=False
        )
    finally:
        os.umask(before)
    made = [hub_dir, *hub_dir.glob("**/*")]
    assert {"hubconf.py", "trusted_list"} <= {each.name for each in made}
    assert [each for each in made if each.stat().st_mode & 0o022] == []


def test_a_repository_is_downloaded_once_and_trusted_from_then_on(on_github, hub_dir, capsys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda question: pytest.fail(question))
    assert hub.list("me/repository:main", trust_repo=True) == ["linear"]
    assert (hub_dir / "trusted_list").read_text() == "me_repository\n"
    assert sorted(path.name for path in hub_dir.iterdir()) == ["me_repository_main", "trusted_list"]
    on_github.unlink()
    assert hub.help("me/repository:main", "linear") == "A layer."
    assert "Using cache found in" in capsys.readouterr().err
    assert hub.load("me/repository:main", "linear", 2, verbose=False).out_features == 2
    with pytest.raises(URLError):
        hub.load("me/repository:main", "linear", 2, force_reload=True)
    assert (hub_dir / "me_repository_main" / "hubconf.py").exists()


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ("n", Exception, "Untrusted repository"),
        ("", Exception, "Untrusted"),
        ("what", ValueError, "Unrecognized"),
    ],
)
def test_the_user_is_asked_about_others(on_github, hub_dir, monkeypatch, answer, error, message):
    monkeypatch.setattr("builtins.input", lambda question: answer)
    with pytest.raises(error, match=message):
        hub.list("me/repository:main")
    assert not list(hub_dir.iterdir())
    monkeypatch.setattr("builtins.input", lambda question: "Y")
    assert hub.list("me/repository:main") == ["linear"]
    monkeypatch.setattr("builtins.input", lambda question: pytest.fail(question))
    assert hub.list("me/repository:main") == ["linear"]
    monkeypatch.setattr("builtins.input", lambda question: "n")
    with pytest.raises(Exception, match="Untrusted repository"):
        hub.list("me/repository:main", trust_repo=False)


def test_refs_of_forks_are_refused(on_github):
    assert hub.list("me/repository:0a1", trust_repo=True) == ["linear"]
    with pytest.raises(ValueError, match=r"Cannot find other in https://github.com/me/repository"):
        hub.list("me/repository:other", trust_repo=True)
    assert hub.list("me/repository:a/b", trust_repo=True, skip_validation=True) == ["linear"]
    assert (Path(hub.get_dir()) / "me_repository_a_b").is_dir()


def test_without_a_ref_the_branch_is_main_or_master_or_what_is_there(hub_dir, monkeypatch):
    def answer(error):
        def urlopen(url):
            raise error

        return urlopen

    monkeypatch.setattr(hub, "urlopen", answer(HTTPError("u", 404, "", {}, None)))
    assert hub._parse_repo_info("a/b") == ("a", "b", "master")
    monkeypatch.setattr(hub, "urlopen", answer(URLError("offline")))
    with pytest.raises(
        RuntimeError, match="no internet connection and the repo could not be found in the cache"
    ):
        hub._parse_repo_info("a/b")
    (hub_dir / "a_b_master").mkdir(parents=True)
    assert hub._parse_repo_info("a/b") == ("a", "b", "master")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../out.py", "contains directory traversal"),
        ("me/../../out.py", "contains directory traversal"),
        ("/out.py", "has absolute path"),
        ("C:\\out.py", "has absolute path"),
    ],
)
def test_archives_are_not_unpacked_elsewhere(on_github, hub_dir, name, message):
    with zipfile.ZipFile(on_github, "a") as archive:
        archive.writestr(name, "x = 1")
    with pytest.raises(ValueError, match=message):
        hub.list("me/repository:main", trust_repo=True)
    assert [path.name for path in hub_dir.iterdir()] == ["trusted_list"]
    assert not list(hub_dir.parents[1].rglob("out.py"))
