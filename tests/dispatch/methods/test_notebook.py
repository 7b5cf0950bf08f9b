"""Notebooks show tensors as text, histograms and pictures, from a sample and without another library."""

import base64
import re
import struct
import zlib

import numpy as np
import pytest

import triten as tt
from triten.dispatch.methods.pictures import BARS, HEIGHT, png


def shown(tensor):
    return tensor._repr_html_()


def pixels_in(page):
    """Decode the pixels of a page's picture from its PNG."""
    data = base64.b64decode(re.search(r"base64,([^\"]+)\"", page)[1])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, position = {}, 8
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + length]
        assert struct.unpack_from(">I", data, position + 8 + length)[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        position += 12 + length
    width, height, depth, color = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    channels = {0: 1, 2: 3, 6: 4}[color]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert depth == 8 and not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


def test_a_small_tensor_is_shown_whole(device):
    page = shown(tt.tensor([[1.5, 2.0], [3.0, np.nan]], device=device))
    assert "<b>Tensor</b> shape [2, 2] · triten.float32 · device " + device in page and "16 bytes" in page
    assert "min 1.5 · mean 2.167 · max 3 · 1 not finite" in page and "[1.5000, 2.0000]" in page
    assert "<svg" not in page and "<img" not in page and "sample" not in page


def test_a_histogram_counts_the_elements():
    page = shown(tt.cat([tt.zeros(30), tt.ones(10), tt.tensor([0.5, np.inf])]))
    heights = [int(each) for each in re.findall(r'height="(\d+)"/>', page)]
    assert heights == [HEIGHT, -(-HEIGHT // 30), HEIGHT // 3] and f'x="{(BARS - 1) * 6}"' in page
    assert "<title>0 to 1</title>" in page
    for odd in (tt.full((20,), 3.0), tt.tensor([-3e38, 3e38] * 10), tt.full((20,), np.nan), tt.ones(20) * 1j):
        assert "triten-tensor" in shown(odd)


@pytest.mark.parametrize("shape", [(16, 24), (3, 16, 24), (1, 16, 24), (16, 24, 4), (16, 24, 3)])
def test_a_picture_has_the_bytes(shape, device):
    x = tt.arange(np.prod(shape), device=device).to(tt.uint8).view(shape)
    expected = x.cpu().numpy()
    expected = (
        expected[..., None] if x.dim() == 2 else expected.transpose(1, 2, 0) if shape[-1] == 24 else expected
    )
    assert (pixels_in(shown(x)) == expected).all()
    bright = pixels_in(shown((x / 255).contiguous()))
    assert bright.shape == expected.shape and abs(bright.astype(int) - expected).max() <= 1


def test_what_is_no_picture():
    for x in (
        tt.rand(3, 16, 16) * 2,
        tt.rand(5, 16, 16),
        tt.rand(4, 4),
        tt.rand(1000, 8),
        tt.eye(16).to_sparse(),
    ):
        assert "<img" not in shown(x)
    assert pixels_in(shown(tt.full((8, 8), np.nan))).max() == 0
    assert pixels_in(shown(tt.eye(16))).ravel().tolist() == (np.eye(16, dtype=int) * 255).ravel().tolist()
    assert png(np.zeros((1, 1, 3), np.uint8)).endswith(b"IEND\xaeB`\x82")


def test_a_sample_of_a_large_tensor_is_copied_once():
    x = tt.zeros(2000, 3000, device="cuda")
    copies = []
    cls = type(x)
    before = cls.host_array
    cls.host_array = lambda self: copies.append(self.numel()) or before(self)
    try:
        page = shown(x)
    finally:
        cls.host_array = before
    assert len(copies) == 1 and copies[0] <= 128 * 128 and "<pre" not in page and "(of a sample of" in page
    assert pixels_in(page).shape == (84, 125, 1)
    huge = tt.empty(1, device="cpu").expand(1 << 40)
    assert "4 TiB" in shown(huge) and len(shown(huge)) < 10_000


def test_tensors_without_elements_of_their_own():
    assert "no values" in shown(tt.ones(3, device="meta")) and "shape [0]" in shown(tt.empty(0))
    sparse = shown(tt.eye(20).to_sparse())
    assert "triten.sparse_coo · nnz 20" in sparse and "<svg" in sparse
    assert "triten.sparse_csr · nnz 3" in shown(tt.eye(3).to_sparse_csr())
    quantized = shown(tt.quantize_per_tensor(tt.arange(20.0), 0.5, 0, tt.quint8))
    assert "per_tensor_affine" in quantized and "max 19" in quantized
    seen = []
    tt.vmap(lambda t: seen.append(shown(t)) or t)(tt.ones(2, 3))
    assert "shape [3]" in seen[0] and "min" not in seen[0]


def test_names_and_history_are_told_and_escaped():
    parameter = tt.nn.Parameter(tt.ones(2))
    assert "<b>Parameter</b>" in shown(parameter) and "requires grad" in shown(parameter)
    assert "has a history" in shown(parameter * 2)

    class Odd(tt.Tensor):
        pass

    Odd.__name__ = "<script>alert(1)</script>"
    page = shown(tt.ones(2).as_subclass(Odd))
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "2 of 3 True" in shown(tt.tensor([True, False, True]))
