"""`tt.utils.tensorboard`: what is logged is what TensorBoard reads. Skipped without it."""

import io
import os
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

import triten as tt

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from triten.utils.tensorboard import FileWriter, SummaryWriter, summary


@pytest.fixture
def writer(tmp_path):
    with SummaryWriter(tmp_path / "log") as made:
        yield made


def read(folder):
    """Read the events that TensorBoard finds in a folder."""
    found = EventAccumulator(str(folder), size_guidance={"tensors": 0, "histograms": 0, "images": 0})
    found.Reload()
    return found


def test_numbers(writer, device):
    for step, value in enumerate([1, 2.5, np.float32(3), tt.tensor(4.0, device=device), tt.tensor([5.0])]):
        writer.add_scalar("loss/train", value, step, walltime=100.0 + step)
    writer.add_scalar("new", 1.5, 7, new_style=True, double_precision=True)
    writer.flush()
    found = read(writer.log_dir)
    assert [(e.step, e.value, e.wall_time) for e in found.Scalars("loss/train")] == [
        (step, value, 100.0 + step) for step, value in enumerate([1, 2.5, 3, 4, 5])
    ]
    assert list(found.Tensors("new")[0].tensor_proto.double_val) == [1.5]
    with pytest.raises(AssertionError, match="Was given size: 2 and 1 dimensions"):
        writer.add_scalar("bad", tt.ones(2))
    with pytest.raises(NotImplementedError, match="numpy array or torch tensor are expected"):
        writer.add_scalar("bad", [1])


def test_several_numbers_have_logs_of_their_own(writer):
    writer.add_scalars("losses/all", {"a": 1.0, "b": 2.0}, 3)
    writer.add_scalars("losses/all", {"a": 5.0}, 4)
    writer.flush()
    assert [e.value for e in read(writer.log_dir / "losses_all_a").Scalars("losses/all")] == [1, 5]
    assert [e.value for e in read(writer.log_dir / "losses_all_b").Scalars("losses/all")] == [2]


def test_histograms(writer):
    writer.add_histogram("h", tt.tensor([-1.0, 0.0, 5.0, 5.5]), 2, bins=[-2, 0, 1, 6])
    writer.add_histogram("default", tt.tensor([1.0, 2.0]))
    writer.add_histogram_raw("raw", 0, 1, 2, 1, 1, [0.5, 1], [1, 1])
    writer.flush()
    found = read(writer.log_dir)
    value = found.Histograms("h")[0].histogram_value
    assert (value.min, value.max, value.num, value.sum, value.sum_squares) == (-1, 5.5, 4, 9.5, 56.25)
    assert list(value.bucket) == [0, 1, 1, 2] and list(value.bucket_limit) == [-2, 0, 1, 6]
    assert sum(found.Histograms("default")[0].histogram_value.bucket) == 2
    assert list(found.Histograms("raw")[0].histogram_value.bucket_limit) == [0.5, 1]
    with pytest.raises(ValueError, match="has no element"):
        writer.add_histogram("h", tt.empty(0))
    with pytest.raises(ValueError, match="no value lies in the bins"):
        writer.add_histogram("h", tt.ones(2), bins=[3, 4])
    with pytest.raises(ValueError, match=r"len\(bucket_limits\) != len\(bucket_counts\)"):
        writer.add_histogram_raw("raw", 0, 1, 2, 1, 1, [0.5, 1], [1])


def test_bins_are_thrown_together():
    values = np.arange(100.0)
    few = summary.histogram("h", values, 100, max_bins=10).value[0].histo
    assert list(few.bucket) == [0] + [10] * 10 and few.num == 100


@pytest.mark.parametrize(
    ("shape", "formats"), [((3, 4, 5), "CHW"), ((4, 5, 3), "HWC"), ((1, 4, 5), "CHW"), ((4, 5), "HW")]
)
@pytest.mark.parametrize("dtype", [tt.float32, tt.uint8])
def test_pictures(writer, shape, formats, dtype):
    image = pytest.importorskip("PIL.Image")
    picture = tt.arange(int(np.prod(shape))).reshape(shape)
    given = picture.to(tt.uint8) if dtype is tt.uint8 else picture / 255
    writer.add_image("i", given, 1, dataformats=formats)
    writer.flush()
    (event,) = read(writer.log_dir).Images("i")
    assert (event.height, event.width) == (4, 5)
    seen = np.asarray(image.open(io.BytesIO(event.encoded_image_string)))
    wanted = picture.numpy().transpose([formats.index(name) for name in "HWC" if name in formats])
    wanted = np.broadcast_to(wanted[..., None] if wanted.ndim == 2 else wanted, (4, 5, 3))
    assert abs(seen.astype(int) - wanted).max() <= (dtype is tt.float32)


def test_pictures_in_grids_with_boxes_and_videos(writer):
    image = pytest.importorskip("PIL.Image")
    writer.add_images("grid", tt.ones(10, 1, 4, 5) * tt.linspace(0, 1, 10).reshape(-1, 1, 1, 1))
    writer.add_image_with_boxes("boxes", tt.zeros(3, 20, 20), tt.tensor([[2.0, 3.0, 9.0, 12.0]]), labels="a")
    writer.add_video("video", tt.rand(2, 3, 3, 4, 5), fps=10)
    writer.flush()
    found = read(writer.log_dir)
    grid = found.Images("grid")[0]
    assert (grid.height, grid.width) == (8, 40)
    boxes = np.asarray(image.open(io.BytesIO(found.Images("boxes")[0].encoded_image_string)))
    assert boxes[3, 2].tolist() == [255, 0, 0] and boxes[18, 18].tolist() == [0, 0, 0]
    video = image.open(io.BytesIO(found.Images("video")[0].encoded_image_string))
    assert video.n_frames == 3 and video.size == (10, 4)
    with pytest.raises(AssertionError, match="same dimension shorthand twice"):
        writer.add_image("bad", tt.ones(3, 3, 3), dataformats="CHH")
    with pytest.raises(AssertionError, match="input format are different"):
        writer.add_image("bad", tt.ones(3, 3))


def test_sounds_and_texts(writer):
    writer.add_audio("sound", tt.tensor([[0.0, 0.5, -1.0]]), sample_rate=8000)
    writer.add_text("text", "**héllo**", 3)
    writer.flush()
    found = read(writer.log_dir)
    with wave.open(io.BytesIO(found.Audio("sound")[0].encoded_audio_string)) as sound:
        assert sound.getframerate() == 8000
        assert np.frombuffer(sound.readframes(3), "<i2").tolist() == [0, 16383, -32767]
    assert found.Tensors("text/text_summary")[0].tensor_proto.string_val[0].decode() == "**héllo**"
    with pytest.raises(AssertionError, match="should be 1 dimensional"):
        writer.add_audio("sound", tt.zeros(2, 3))


@pytest.mark.parametrize(
    "dtype", [tt.float16, tt.bfloat16, tt.float64, tt.uint8, tt.int64, tt.bool, tt.complex64]
)
def test_tensors(dtype):
    content = summary.tensor_proto("t", tt.tensor([[0, 1], [2, 3]]).to(dtype)).value[0].tensor
    assert [dim.size for dim in content.tensor_shape.dim] == [2, 2]
    expected = {
        tt.float16: [0, 0x3F800000, 0x40000000, 0x40400000],
        tt.bfloat16: [0, 0x3F800000, 0x40000000, 0x40400000],
        tt.bool: [False, True, True, True],
        tt.complex64: [0, 0, 1, 0, 2, 0, 3, 0],
    }.get(dtype, [0, 1, 2, 3])
    assert list(getattr(content, summary.KINDS[dtype][1])) == expected


def test_curves():
    labels, predictions = tt.tensor([0, 1, 1, 0, 1]), tt.tensor([0.1, 0.4, 0.9, 0.7, 0.6], dtype=tt.float64)
    content = summary.pr_curve("p", labels, predictions, 5).value[0].tensor
    rows = np.array(content.float_val).reshape(6, 5)
    assert rows[0].tolist() == [3, 3, 2, 1, 0] and rows[1].tolist() == [2, 1, 1, 0, 0]
    assert rows[4, 0] == pytest.approx(0.6) and rows[5].tolist() == pytest.approx([1, 1, 2 / 3, 1 / 3, 0])


def test_charts_and_meshes(writer):
    writer.add_custom_scalars_multilinechart(["a", "b"], "category", "title")
    writer.add_custom_scalars_marginchart(["a", "b", "c"])
    writer.add_mesh("m", tt.rand(1, 4, 3), colors=tt.zeros(1, 4, 3, dtype=tt.int32), config_dict={"a": 1})
    writer.flush()
    tags = read(writer.log_dir).Tags()["tensors"]
    assert {"custom_scalars__config__", "m_VERTEX", "m_COLOR"} <= set(tags)
    with pytest.raises(AssertionError, match="Expected 3 tags, got 1"):
        writer.add_custom_scalars_marginchart(["a"])


def test_hyperparameters(writer):
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    given = {"lr": 0.1, "n": 3, "flag": True, "name": "x", "none": None, "t": tt.tensor([2.5])}
    writer.add_hparams(given, {"accuracy": 0.9}, {"name": ["x", "y"]}, run_name="run", global_step=5)
    found = read(writer.log_dir / "run")
    assert found.Scalars("accuracy")[0].step == 5
    _, start, _ = summary.hparams(given, {"accuracy": 0.9})
    data = HParamsPluginData.FromString(start.value[0].metadata.plugin_data.content)
    values = data.session_start_info.hparams
    assert (values["lr"].number_value, values["t"].number_value, values["name"].string_value) == (
        0.1,
        2.5,
        "x",
    )
    assert "none" not in values
    with pytest.raises(TypeError, match="should be dictionary"):
        writer.add_hparams([], {})
    with pytest.raises(TypeError, match=r"hparam_domain_discrete\[lr\] should be a list of same type"):
        writer.add_hparams({"lr": 1.0}, {}, {"lr": ["x"]})
    with pytest.raises(ValueError, match="value should be one of"):
        writer.add_hparams({"lr": []}, {})


def test_embeddings(writer):
    pytest.importorskip("PIL")
    writer.add_embedding(
        tt.arange(8.0).reshape(4, 2), ["a", "b", "c", "d"], tt.rand(4, 3, 2, 2), global_step=2, tag="x/y"
    )
    writer.add_embedding(tt.zeros(1, 2), [["a", 1]], metadata_header=["h", "k"])
    folder = writer.log_dir
    assert (folder / "00002" / "x%2fy" / "tensors.tsv").read_text().splitlines()[1] == "2.0\t3.0"
    assert (folder / "00002" / "x%2fy" / "sprite.png").exists()
    assert (folder / "00000" / "default" / "metadata.tsv").read_text() == "h\tk\na\t1\n"
    text = (folder / "projector_config.pbtxt").read_text()
    assert 'tensor_name: "x/y:00002"' in text and text.count("embeddings {") == 2
    with pytest.raises(AssertionError, match="#labels should equal with #data points"):
        writer.add_embedding(tt.zeros(2, 2), ["a"])


def test_graphs_are_refused(writer):
    with pytest.raises(NotImplementedError, match="make_graph"):
        writer.add_graph(tt.nn.Linear(2, 2), tt.ones(2))


def test_a_closed_writer_goes_on_in_a_new_file(tmp_path):
    writer = SummaryWriter(tmp_path, purge_step=3, filename_suffix=".own")
    writer.close()
    writer.close()
    writer.add_scalar("a", 1, 4)
    writer.close()
    assert [e.step for e in read(tmp_path).Scalars("a")] == [4]
    assert all(name.endswith(".own") for name in os.listdir(tmp_path))
    other = FileWriter(tmp_path / "other")
    assert other.get_logdir() == str(tmp_path / "other")
    other.close()


def test_the_default_folder_is_named_by_time_and_machine(tmp_path, monkeypatch):
    import socket

    monkeypatch.chdir(tmp_path)
    SummaryWriter(comment="_own").close()
    (name,) = os.listdir("runs")
    assert name.endswith(f"_{socket.gethostname()}_own")


def test_figures(writer):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    writer.add_figure("figure", plt.figure(figsize=(2, 1), dpi=50))
    writer.flush()
    event = read(writer.log_dir).Images("figure")[0]
    assert (event.height, event.width) == (50, 100) and not plt.get_fignums()


def test_without_the_package_the_error_names_it(tmp_path):
    program = (
        "import sys\n"
        "sys.modules['tensorboard'] = None\n"
        "try:\n"
        "    import triten.utils.tensorboard\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(tt.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True
    )
    assert "pip install tensorboard" in done.stdout, done.stderr
