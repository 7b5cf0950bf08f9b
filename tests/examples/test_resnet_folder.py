"""The ResNet reads a folder of images, learns, and counts its mistakes."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import triten as tt

pytest.importorskip("PIL", reason="the images are files that Pillow reads")

Load = Callable[[str], ModuleType]


def test_the_loss_falls_and_every_image_is_counted(
    load_example: Load, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--device", "cpu", "--epochs", "3", "--images", "15", "--size", "12", "--width", "4"]
    load_example("resnet_folder").main(options)
    printed = capsys.readouterr().out
    losses = [float(value) for value in re.findall(r"loss (\S+)", printed)]
    assert len(losses) == 3 and losses[-1] < losses[0]
    rows = re.findall(r"^ +(?:circle|square|star|triangle)((?: +\d+){4})$", printed, re.MULTILINE)
    counts = [list(map(int, row.split())) for row in rows]
    assert sum(map(sum, counts)) == 60 // 5
    accuracy = float(re.findall(r"test accuracy: (\S+) %", printed)[0])
    assert accuracy == pytest.approx(100 * sum(counts[i][i] for i in range(4)) / 12, abs=0.1)


def test_a_folder_of_the_user_is_read(load_example: Load, tmp_path: Path) -> None:
    from PIL import Image

    example = load_example("resnet_folder")
    path = tmp_path / "red.png"
    Image.new("RGB", (10, 8), (255, 0, 51)).save(path)
    x, label = example.ImageFolder([(path, 3)], 6, augment=False)[0]
    assert label == 3 and x.shape == (3, 6, 6)
    tt.testing.assert_close(x.mean((1, 2)), tt.tensor([1.0, -1.0, -0.6]))
    shifted, _ = example.ImageFolder([(path, 3)], 6, augment=True)[0]
    assert shifted.shape == (3, 6, 6)


def test_the_network_halves_the_resolution_and_doubles_the_channels(load_example: Load) -> None:
    network = load_example("resnet_folder").resnet(5, 4, (2, 1, 1))
    shapes = []
    for layer in network:
        layer.register_forward_hook(lambda layer, args, out: shapes.append(tuple(out.shape)))
    network(tt.zeros(2, 3, 16, 16))
    assert shapes[3:] == [
        (2, 4, 16, 16), (2, 4, 16, 16), (2, 8, 8, 8), (2, 16, 4, 4), (2, 16, 1, 1), (2, 16), (2, 5)
    ]  # fmt: skip
