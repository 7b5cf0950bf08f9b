"""Everyday calls, and the operators that a dispatch mode sees for each.

`calls` has typical program code. Run with PyTorch as a script, this module writes `everyday_calls.json`, with the
operators that PyTorch dispatches for each call::

    python tests/dispatch/everyday_calls.py

`test_everyday_calls.py` compares with it. The same code records both: its argument is the module, `torch` or `triten`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_suffix(".json")

OPTIONS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})
"""Options of factories, which PyTorch fills in before it dispatches."""

DETACH = "aten.detach.default(Tensor)"
"""PyTorch's autograd detaches what it saves and accumulates; no other operator depends on it."""

CALLS = """
# Operators with a number or a tensor on either side
x + y
x + 2
2 + x
x - y
x - 2
1 - x
x * y
x * 2.5
2 * x
x / y
x / 2
2 / x
x // 2
x // y
7 // x
x % 2
x % y
7 % i
x ** 2
x ** y
2 ** x
-x
+x
abs(x)
~b
~i
x == 1
x == y
x != 1
x < 1
x < y
x <= 1.5
x > 1
x >= 1
1 < x
i & 3
i & j
b & True
3 & i
i | 1
i | j
1 | i
i ^ 1
i ^ j
2 ^ i
i << 1
i << j
1 << i
i >> 1
i >> j
8 >> i
x @ y.T
# In-place operators
x += 1
x += y
x -= 1
x -= y
x *= 2
x *= y
x /= 2
x /= y
x //= 2
x %= 2
x **= 2
i &= 3
i |= j
i ^= 1
i <<= 1
i >>= 1
x.add_(y, alpha=2)
x.zero_()
x.fill_(1)
x.clamp_(0, 1)
x.relu_()
x.copy_(y)
x.eq_(1)
x.masked_fill_(b, 0)
x[1:3] += 1
x[b] += 1
x[:, 0] *= 2
x.mul_(y)
x.div_(2)
x.sub_(y)
x.addcmul_(y, y, value=2)
x.addcdiv_(y, x, value=0.5)
x.lerp_(y, 0.5)
x.fmod_(2)
x.remainder_(2)
x.pow_(2)
x.ge_(1)
i.bitwise_or_(1)
x.masked_fill_(b, s)
x.index_fill_(0, k, 1)
x.index_add_(0, k, y[:3])
x.scatter_(1, i % 2, 1.0)
x.fill_(s)
# Arithmetic functions
torch.add(x, y, alpha=2)
torch.add(x, 2, alpha=3)
torch.sub(x, 1)
torch.rsub(x, 1)
torch.mul(x, 2)
torch.div(x, 2, rounding_mode="floor")
torch.div(x, y, rounding_mode="trunc")
torch.floor_divide(x, 2)
torch.remainder(x, 2)
torch.remainder(2, x)
torch.fmod(x, 2)
torch.pow(x, 3)
torch.pow(2, x)
torch.float_power(x, 2)
torch.eq(x, 1)
torch.ne(x, y)
x.gt(0)
x.lt(y)
torch.greater(x, 1)
torch.not_equal(x, 1)
torch.bitwise_and(i, 3)
torch.bitwise_left_shift(i, 1)
torch.bitwise_right_shift(i, 1)
torch.logical_and(x, y)
torch.maximum(x, y)
torch.max(x, y)
torch.lerp(x, y, 0.5)
torch.addcmul(x, y, y, value=2)
torch.atan2(x, y)
torch.xlogy(x, 2)
torch.copysign(x, -1)
torch.hypot(x, y)
torch.exp(x)
torch.sqrt(x)
torch.rsqrt(x)
torch.square(x)
torch.log(x)
torch.log1p(x)
torch.log2(x)
torch.sin(x)
torch.cos(x)
torch.floor(x)
torch.ceil(x)
torch.round(x)
torch.trunc(x)
torch.neg(x)
torch.abs(x)
torch.reciprocal(x)
torch.erf(x)
torch.expm1(x)
x.sqrt_()
x.exp_()
x.sigmoid_()
x.clamp_(min=0)
torch.sign(x)
torch.isnan(x)
torch.isfinite(x)
torch.isinf(x)
torch.allclose(x, y)
torch.equal(x, y)
torch.nan_to_num(x)
torch.clamp(x, 0, 1)
torch.clamp(x, min=0)
torch.clamp(x, max=y)
x.clip(0, 1)
x.clamp_min(0)
torch.where(b, x, y)
torch.where(b, x, 1)
torch.where(b, 1, x)
torch.where(b, 1.0, 2.0)
torch.where(b)
x.masked_fill(b, -1e9)
x.masked_fill(b, s)
torch.minimum(x, y)
torch.min(x, y)
torch.logical_not(b)
torch.logical_or(b, b)
torch.bitwise_not(i)
torch.bitwise_xor(i, 1)
torch.true_divide(x, 2)
torch.multiply(x, 2)
torch.subtract(x, 1)
torch.fmod(x, y)
torch.lerp(x, y, y)
torch.softmax(x, 0)
torch.deg2rad(x)
torch.heaviside(x, y)
torch.complex(x, y)
torch.real(x)
# Indexing and assignment
x[0]
x[-1]
x[1:3]
x[:, 0]
x[..., None]
x[::2]
x[0, 1]
x[0:4]
x[b]
x[k]
x[:, k]
x[k, k]
x[None]
x[[0, 2]]
x[0] = 1
x[1:3] = y[1:3]
x[b] = 0
x[k] = 1.0
x[b] = y[b]
x[..., 0] = 2
x[:] = 0
x[0, 1] = s
x.index_select(0, k)
x.gather(1, i % 2)
x.scatter(1, i % 2, y)
x.scatter(1, i % 2, 1.0)
x.scatter_add(1, i % 2, y)
x.scatter_reduce(1, i % 2, y, "sum")
x.index_add(0, k, y[:3])
x.index_fill(0, k, 0)
x.index_copy(0, k, y[:3])
x.index_put((k,), s)
x.take(k)
torch.masked_select(x, b)
x.nonzero()
# Factories
torch.zeros(2, 3)
torch.ones(2, 3)
torch.empty(2, 3)
torch.full((2, 3), 1.5)
torch.full((2, 3), 7)
torch.arange(5)
torch.arange(1, 5)
torch.arange(0, 1, 0.25)
torch.linspace(0, 1, 5)
torch.logspace(0, 1, 5)
torch.eye(3)
torch.eye(3, 4)
torch.tensor(1.0)
torch.tensor([1, 2])
torch.scalar_tensor(2)
torch.zeros_like(x)
torch.ones_like(x)
torch.empty_like(x)
torch.full_like(x, 2)
torch.rand_like(x)
torch.randn_like(x)
torch.randint_like(x, 5)
x.new_zeros(2, 3)
x.new_ones(2, 3)
x.new_empty(2, 3)
x.new_full((2,), 1.5)
x.new_tensor([1.0])
torch.tril(x)
torch.triu(x, 1)
torch.diag(v)
torch.diag_embed(v)
torch.meshgrid(v, v, indexing="ij")
# Random
torch.rand(2, 3)
torch.randn(2, 3)
torch.randint(5, (2, 3))
torch.randint(1, 5, (2, 3))
torch.randperm(5)
torch.normal(0.0, 1.0, (2, 3))
torch.normal(x, 1.0)
torch.bernoulli(p)
torch.multinomial(p, 2)
x.uniform_()
x.normal_()
x.bernoulli_(0.5)
x.exponential_()
# Reductions
x.sum()
x.sum(0)
x.sum((0, 1), keepdim=True)
x.mean()
x.mean(0)
x.prod()
x.prod(0)
x.max()
x.max(0)
x.min(1)
x.amax(0)
x.amin()
x.argmax()
x.argmin(0)
x.all()
b.any()
b.any(0)
x.std()
x.std(0)
x.std(0, unbiased=False)
x.var()
x.var(0, correction=0)
torch.std_mean(x)
torch.var_mean(x, 0)
x.norm()
x.norm(dim=0)
x.norm(1)
torch.linalg.norm(x)
torch.linalg.vector_norm(x, dim=0)
x.logsumexp(0)
x.cumsum(0)
x.cumprod(0)
x.cummax(0)
x.median()
x.median(0)
x.nansum()
torch.aminmax(x)
torch.count_nonzero(x)
torch.bincount(k)
torch.unique(k)
# Values
s.item()
if s > 0: pass
x.tolist()
x.numel()
x.sum(-1)
x.mean((0, 1))
x.mean(-1, keepdim=True)
x.max(-1, keepdim=True)
x.argmax(-1)
x.sum(dtype=torch.float64)
x.all(0)
x.var(-1, unbiased=False)
x.diff()
x.cummin(0)
x.dist(y)
# Shapes
x.view(6, 4)
x.view(-1)
x.reshape(-1)
x.T.reshape(-1)
x.flatten()
x.T
x.t()
x.transpose(0, 1)
x.permute(1, 0)
x.mT
x.unsqueeze(0)
x.squeeze()
x.squeeze(0)
x.expand(2, 4, 6)
x.expand_as(y)
x.repeat(2, 1)
x.tile(2)
x.repeat_interleave(2)
x.repeat_interleave(2, 0)
torch.cat([x, y])
torch.cat((x, y), 1)
torch.stack([x, y])
torch.stack([x, y], 1)
torch.hstack([x, y])
torch.vstack([x, y])
x.split(2)
x.split([1, 3])
x.chunk(2)
x.unbind(0)
torch.tensor_split(x, 2)
x.narrow(0, 1, 2)
x.select(0, 1)
x.flip(0)
x.roll(1)
x.roll(1, 0)
x.roll((1, 2), (0, 1))
torch.rot90(x)
x.diagonal()
x.movedim(0, 1)
x.unfold(0, 2, 1)
x.unflatten(1, (2, 3))
torch.broadcast_to(x, (2, 4, 6))
torch.atleast_2d(v)
torch.ravel(x)
x.contiguous()
x.T.contiguous()
x.clone()
x.detach()
x.to(torch.float64)
x.to("cpu")
x.double()
x.float()
x.int()
x.bool()
x.type_as(i)
x.view_as(y)
x.as_strided((2, 2), (1, 2))
x.swapaxes(0, 1)
x.unsqueeze(-1)
x.unsqueeze_(0)
x.t_()
x.reshape(4, 2, 3)
x.half()
x.long()
x.to(i)
x.cpu()
x.requires_grad_()
x.squeeze(-1)
x.select(1, 0)
torch.column_stack([x, y])
torch.dstack([x, y])
x.tensor_split(3, 1)
x.hsplit(2)
x.expand(-1, 6)
# Products
x.matmul(y.T)
x @ v6
v6 @ v6
torch.mm(x, y.T)
torch.bmm(m, m.transpose(1, 2))
m @ m.mT
m @ x.T
torch.dot(v, v)
torch.mv(x, v6)
torch.outer(v, v)
torch.addmm(v, x, y.T)
torch.baddbmm(m @ m.mT, m, m.mT)
torch.einsum("ij,kj->ik", x, y)
torch.einsum("bij,bkj->bik", m, m)
torch.einsum("ii->i", x[:, :4])
torch.tensordot(x, y, ([1], [1]))
torch.linalg.inv(q)
torch.linalg.solve(q, v)
torch.linalg.det(q)
torch.trace(q)
torch.addmm(x[:, :4], x, y.T, beta=0.5, alpha=2)
torch.linalg.norm(x, dim=1)
torch.linalg.cholesky(q)
torch.linalg.qr(q)
torch.cross(x[:, :3], y[:, :3], dim=1)
# Sorting
x.sort()
x.sort(dim=0, descending=True)
x.argsort()
torch.argsort(x, dim=0, stable=True)
x.topk(2)
x.kthvalue(2)
torch.searchsorted(v, x)
torch.bucketize(x, v)
torch.histc(x, 4)
# nn.functional
F.linear(x, w)
F.linear(x, w, v5)
F.relu(x)
F.relu(x, inplace=True)
F.gelu(x)
F.gelu(x, approximate="tanh")
F.silu(x)
F.sigmoid(x)
torch.sigmoid(x)
torch.tanh(x)
F.elu(x)
F.leaky_relu(x)
F.softplus(x)
F.hardtanh(x)
F.relu6(x)
F.mish(x)
F.hardswish(x)
F.selu(x)
F.logsigmoid(x)
F.threshold(x, 0.1, 0.0)
F.prelu(x, s)
F.softmax(x, -1)
F.log_softmax(x, 1)
F.softmin(x, -1)
F.gumbel_softmax(x, dim=-1)
F.glu(x)
F.normalize(x)
F.cosine_similarity(x, y)
F.cross_entropy(x, k4)
F.cross_entropy(x, k4, label_smoothing=0.1)
F.nll_loss(x, k4)
F.mse_loss(x, y)
F.l1_loss(x, y)
F.smooth_l1_loss(x, y)
F.huber_loss(x, y)
F.binary_cross_entropy(p, p)
F.binary_cross_entropy_with_logits(x, p)
F.kl_div(x, p)
F.layer_norm(x, (6,))
F.layer_norm(x, (6,), v6, v6)
F.rms_norm(x, (6,))
F.batch_norm(x, v6, p6, training=True)
F.batch_norm(x, v6, p6)
F.group_norm(im, 2)
F.instance_norm(im)
F.dropout(x)
F.dropout(x, training=False)
F.embedding(k, x)
F.embedding(k, x, padding_idx=0)
F.conv1d(im[0], c1)
F.conv2d(im, c2)
F.conv2d(im, c2, padding=1, stride=2)
F.conv2d(im, c2, padding="same")
F.conv_transpose2d(im, c2t)
F.max_pool2d(im, 2)
F.avg_pool2d(im, 2)
F.adaptive_avg_pool2d(im, 1)
F.adaptive_avg_pool2d(im, 2)
F.adaptive_max_pool2d(im, 2)
F.pad(x, (1, 1))
F.pad(x, (1, 1), value=2.0)
F.pad(im, (1, 1, 1, 1), mode="reflect")
F.pad(im[0], (1, 1), mode="replicate")
F.interpolate(im, scale_factor=2)
F.interpolate(im, size=(8, 8), mode="bilinear")
F.pixel_shuffle(im, 2)
F.unfold(im, 2)
F.scaled_dot_product_attention(m4, m4, m4)
F.scaled_dot_product_attention(m4, m4, m4, is_causal=True)
F.one_hot(k)
F.conv3d(im[None], c3)
F.avg_pool1d(im[0], 2)
F.max_pool1d(im[0], 2)
F.poisson_nll_loss(x, p)
torch.cdist(x, y)
# With gradients
(g * 2).sum().backward()
(1 - g).sum().backward()
g.std().backward()
g.roll(1).sum().backward()
g.repeat(2, 1).sum().backward()
torch.stack([g, y]).sum().backward()
F.glu(g).sum().backward()
F.softmax(g, -1).sum().backward()
g.mean().backward()
(g @ y.T).sum().backward()
F.cross_entropy(g, k4).backward()
torch.where(b, g, 1).sum().backward()
g[1:3].sum().backward()
g[k].sum().backward()
F.layer_norm(g, (6,)).sum().backward()
F.relu(g).sum().backward()
F.gelu(g).sum().backward()
g.max(0).values.sum().backward()
torch.cat([g, y]).sum().backward()
(g ** 2).sum().backward()
(g % 2).sum().backward()
(g + g).sum().backward()
# Reads of an element
bool(s)
float(s)
int(i[0, 0])
complex(s)
[1, 2, 3, 4][k[0]]
x[k[0]]
x[: k[1]]
torch.zeros(k[1], 2)
torch.full((2,), s)
torch.tensor([s, 1.0])
not s
x.sum().item() * 2
# Indexing with None, ellipsis, masks, and assignment that broadcasts
x[..., 0]
x[None, ..., None]
x[0, ..., 1]
x[b[:, 0]]
x[:, b[0]]
x[b[:, 0], 1]
x[1:, None, ::2]
x[k, None]
x[k, 1:3]
x[..., k]
x[k[:, None], k]
m[:, k, 0]
x[torch.tensor(True)]
x[-2:]
x[:, -1:]
x[b] = y[0, 0]
x[:, 1:3] = v[:, None]
x[0] = v6
x[..., 1] = v
x[k] += 1
x[k, 0] = 5
x[b[:, 0]] = 1.5
x[None, 0] = 2
x[1:, ::2] *= 2
x[i > 2] = s
x.index_put_((k, k), v[:3], accumulate=True)
torch.index_select(x, 1, k)
torch.take_along_dim(x, i % 4, 0)
torch.select_scatter(x, v6, 0, 1)
torch.slice_scatter(x, y[:2], 0, 1, 3)
torch.diagonal_scatter(x, v, 0)
torch.masked_scatter(x, b, y)
x.masked_scatter_(b, y)
x.put_(k, v[:3])
x.fill_diagonal_(2)
# Special functions
torch.special.expit(x)
torch.special.logit(p, 1e-6)
torch.special.erfc(x)
torch.special.erfinv(p - 0.5)
torch.special.gammaln(x)
torch.special.digamma(x)
torch.special.polygamma(1, x)
torch.special.i0(x)
torch.special.i1e(x)
torch.special.entr(p)
torch.special.ndtr(x)
torch.special.ndtri(p * 0.9)
torch.special.log_ndtr(x)
torch.special.xlog1py(x, 2)
torch.special.zeta(x + 1, 2)
torch.special.sinc(x)
torch.special.log_softmax(x, 0)
torch.special.multigammaln(x + 2, 2)
torch.special.bessel_j0(x)
torch.special.exp2(x)
torch.special.logsumexp(x, 0)
# Linear algebra
torch.linalg.eigh(q)
torch.linalg.svd(x, full_matrices=False)
torch.linalg.svdvals(x)
torch.linalg.pinv(x)
torch.linalg.lstsq(x, y)
torch.linalg.matrix_norm(x)
torch.linalg.matrix_power(q, 3)
torch.linalg.matrix_rank(x)
torch.linalg.slogdet(q)
torch.linalg.multi_dot([x, y.T, x])
torch.linalg.cross(x[:, :3], y[:, :3])
torch.linalg.solve_triangular(q, x, upper=True)
torch.linalg.lu_factor(q)
torch.linalg.eigvalsh(q)
torch.linalg.vander(v)
torch.linalg.cond(q)
torch.linalg.norm(x, ord=1)
torch.linalg.inv_ex(q)
torch.linalg.tensorinv(q.reshape(2, 2, 2, 2))
torch.cholesky_solve(x, q)
torch.tensordot(m, x, dims=([2], [1]))
torch.tensordot(x, y.T, dims=1)
torch.einsum("i,j->ij", v, v6)
torch.einsum("ij->ji", x)
torch.einsum("ij->", x)
torch.einsum("bij,jk->bik", m, y.T)
torch.einsum("...ij,...kj->...ik", m, m)
torch.einsum("ij,ij->i", x, y)
torch.kron(q, q)
torch.inner(x, y)
torch.vdot(v, v)
torch.ger(v, v)
torch.chain_matmul(x, y.T)
torch.addmv(v, x, v6)
torch.addr(q, v, v)
torch.addbmm(q, m, m.mT)
torch.block_diag(q, q)
torch.cov(x)
torch.corrcoef(x)
torch.cdist(x, y, p=1)
torch.triu_indices(3, 3)
torch.vander(v)
# Losses
F.mse_loss(x, y, reduction="none")
F.mse_loss(x, y, reduction="sum")
F.l1_loss(x, y, reduction="sum")
F.cross_entropy(x, p)
F.cross_entropy(x, k4, weight=v6)
F.cross_entropy(x, k4, ignore_index=1, reduction="sum")
F.nll_loss(x, k4, reduction="none")
F.binary_cross_entropy(p, p, weight=p)
F.binary_cross_entropy_with_logits(x, p, pos_weight=v6)
F.kl_div(x, p, reduction="batchmean")
F.kl_div(x, x, log_target=True)
F.gaussian_nll_loss(x, y, p)
F.hinge_embedding_loss(x, torch.sign(y))
F.margin_ranking_loss(x, y, torch.sign(y))
F.triplet_margin_loss(x, y, p)
F.cosine_embedding_loss(x, y, torch.ones(4))
F.soft_margin_loss(x, torch.sign(y))
F.multi_margin_loss(x, k4)
F.multilabel_soft_margin_loss(x, p)
F.smooth_l1_loss(x, y, beta=0.5)
F.huber_loss(x, y, delta=0.5)
F.ctc_loss(x.log_softmax(-1)[:, None], k[None] % 5 + 1, torch.tensor([4]), torch.tensor([3]))
# Modules
torch.nn.Linear(6, 3)(x)
torch.nn.LayerNorm(6)(x)
torch.nn.Embedding(10, 4)(k)
torch.nn.Conv2d(4, 2, 3)(im)
torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.ReLU())(x)
torch.nn.BatchNorm2d(4).eval()(im)
torch.nn.GRUCell(6, 3)(x)
torch.nn.LSTMCell(6, 3)(x)
torch.nn.Bilinear(6, 6, 2)(x, y)
torch.nn.CosineSimilarity()(x, y)
torch.nn.PairwiseDistance()(x, y)
torch.nn.Flatten()(im)
torch.nn.Unflatten(1, (2, 3))(x)
torch.nn.Softmax(dim=-1)(x)
torch.nn.PReLU()(x)
torch.nn.MaxPool2d(2, return_indices=True)(im)
torch.nn.AdaptiveAvgPool2d((2, 2))(im)
torch.nn.Upsample(scale_factor=2, mode="nearest")(im)
torch.nn.ZeroPad2d(1)(im)
torch.nn.PixelUnshuffle(2)(im)
torch.nn.Fold((4, 8), 2, stride=2)(F.unfold(im, 2, stride=2))
torch.nn.EmbeddingBag(10, 4)(k[None])
torch.nn.GroupNorm(2, 4)(im)
torch.nn.LocalResponseNorm(2)(im)
torch.nn.ChannelShuffle(2)(im)
# In-place operators and out=
x.tanh_()
x.neg_()
x.abs_()
x.floor_()
x.reciprocal_()
x.rsqrt_()
x.cumsum_(0)
x.clamp_(max=y)
x.transpose_(0, 1)
x.squeeze_()
x.lerp_(y, y)
x.addmm_(y, torch.eye(6))
x.tril_()
x.logical_not_()
i.bitwise_xor_(j)
x.nan_to_num_()
x.index_copy_(0, k, y[:3])
x.scatter_add_(1, i % 2, y)
x.scatter_reduce_(1, i % 2, y, "amax")
x.random_(5)
x.geometric_(0.5)
x.log_normal_()
x.cauchy_()
x.swapaxes_(0, 1)
x.unsqueeze_(-1)
x.requires_grad_(False)
x.resize_(2, 3)
x.set_(y)
x.data.add_(1)
torch.add(x, y, out=z)
torch.mul(x, 2, out=z)
torch.exp(x, out=z)
torch.mm(x, y.T, out=z[:, :4])
torch.cat([x, y], out=z)
torch.sum(x, 0, out=z[0])
torch.max(x, 1, out=(z[:, 0].contiguous(), torch.empty(4, dtype=torch.int64)))
torch.arange(4, out=torch.empty(4))
torch.where(b, x, y, out=z)
torch.clamp(x, 0, 1, out=z)
torch.stack([x, y], out=torch.empty(2, 4, 6))
torch.eq(x, y, out=torch.empty(4, 6, dtype=torch.bool))
F.elu_(x)
F.leaky_relu_(x)
F.threshold_(x, 0.5, 0.0)
torch.relu_(x)
# Random factories
torch.randn(3, dtype=torch.float64)
torch.rand((2, 3))
torch.randint(0, 5, (2,), dtype=torch.int32)
torch.randn_like(x, dtype=torch.float64)
torch.normal(0.0, x)
torch.normal(x, p)
torch.poisson(p)
torch.empty(3).random_()
torch.randint_like(x, 1, 5)
torch.dropout(x, 0.5, True)
F.dropout2d(im, 0.5)
F.alpha_dropout(x, 0.5, True)
F.feature_alpha_dropout(im, 0.5, True)
F.rrelu(x, training=True)
torch.rand(2, generator=torch.Generator())
# Interpolation, padding, windows
F.interpolate(im, scale_factor=0.5, mode="area")
F.interpolate(im, size=(8, 8), mode="bicubic", align_corners=True)
F.interpolate(im[0], scale_factor=2, mode="linear")
F.interpolate(im, size=5, mode="nearest-exact")
F.interpolate(im, size=(8, 8), mode="bilinear", antialias=True)
F.pad(im, (1, 1, 1, 1), mode="replicate")
F.pad(im, (1, 0, 0, 1), value=-1.0)
F.pad(im, (-1, -1))
F.grid_sample(im, torch.zeros(2, 2, 2, 2), align_corners=False)
F.affine_grid(torch.eye(2, 3)[None], (1, 1, 2, 2), align_corners=False)
F.fold(F.unfold(im, 2), (4, 8), 2)
F.avg_pool3d(im[None], 2)
F.lp_pool2d(im, 2.0, 2)
F.max_unpool2d(*F.max_pool2d(im, 2, return_indices=True), 2)
F.conv_transpose1d(im[0], c1.transpose(0, 1), stride=2)
F.conv2d(im, c2[:, :2], groups=2)
x.unfold(1, 3, 2)
torch.hann_window(4)
torch.stft(v.repeat(8), 8, return_complex=True)
torch.fft.fft(x)
torch.fft.rfft2(x)
torch.fft.irfft(torch.fft.rfft(x))
torch.fft.fftshift(x)
# Sparse and complex
x.to_sparse()
x.to_sparse().to_dense()
torch.sparse_coo_tensor(k[None], v[:3], (4,))
torch.sparse.mm(x.to_sparse(), y.T)
torch.complex(x, y).abs()
torch.complex(x, y).conj()
torch.view_as_real(torch.complex(x, y))
torch.polar(x, y)
torch.complex(x, y).real
torch.complex(x, y).imag.add_(1)
torch.complex(x, y) * 2j
x * 1j
torch.angle(torch.complex(x, y))
torch.complex(x, y) @ torch.complex(x, y).mH
# Type promotion with Python numbers
i + 1.5
i * True
i / 2
b + 1
b * 2.0
i ** 2.0
x + True
x // 1.5
i.float() + 1
torch.add(i, 1.5)
torch.where(b, i, 1.5)
torch.maximum(i, j) * 0.5
i == 1.0
b & b
b == 1
torch.clamp(i, 0.5)
i.true_divide(2)
torch.pow(2.0, i)
i.mean(dtype=torch.float32)
sum([x, y])
max(s, v[0])
abs(-x)
x.to(torch.int32) % 3
# Shapes and lists
torch.unravel_index(k, (2, 2))
torch.cartesian_prod(v, v)
torch.combinations(v)
torch.split_with_sizes(x, [1, 3])
torch.block_diag(x)
torch.atleast_3d(x)
x.flip((0, 1))
torch.fliplr(x)
x.expand(2, *x.shape)
x.moveaxis(0, 1)
x.index_select(1, k).sum(0)
torch.chunk(x, 2, dim=1)
list(x)
a1, a2 = x.split(2)
x.view(torch.int32)
x.new_empty(3).shape
torch.empty_strided((2, 2), (1, 2))
torch.concat([x, y], dim=-1)
torch.row_stack([x, y])
x.sum_to_size(1, 6)
torch.trapezoid(x)
torch.gradient(v)
torch.histogram(v, 3)
torch.msort(x)
torch.isin(x, v)
torch.unique_consecutive(k)
torch.mode(x, 0)
x.quantile(0.5)
x.nanmean()
x.logcumsumexp(0)
torch.renorm(x, 2, 0, 1.0)
torch.logaddexp(x, y)
torch.frexp(x)
torch.nextafter(x, y)
torch.gcd(i, j + 1)
torch.ldexp(x, i)
torch.signbit(x)
torch.float_power(i, 2)
torch.fix(x)
torch.positive(x)
# More gradients
g.sigmoid().sum().backward()
g.tanh().sum().backward()
g.prod().backward()
g.norm().backward()
(g / y).sum().backward()
g.exp().log().sum().backward()
g.transpose(0, 1).contiguous().sum().backward()
g.view(-1).cumsum(0).sum().backward()
F.mse_loss(g, y).backward()
F.binary_cross_entropy_with_logits(g, p).backward()
F.silu(g).sum().backward()
F.embedding(k, g).sum().backward()
g.expand(2, 4, 6).sum().backward()
torch.einsum("ij,kj->ik", g, y).sum().backward()
g.var().backward()
g.abs().sum().backward()
g.clamp(0, 1).sum().backward()
g.softmax(0).log().sum().backward()
g.gather(1, i % 2).sum().backward()
g.unsqueeze(0).squeeze(0).sum().backward()
g.sort().values.sum().backward()
g.masked_fill(b, 0).sum().backward()
F.pad(g, (1, 1)).sum().backward()
g.index_select(0, k).sum().backward()
g.amax(0).sum().backward()
torch.autograd.grad(g.sum(), g)
# Numbers on either side of special methods
x.__rsub__(2)
x.__rpow__(2)
x.__rtruediv__(1)
x.__radd__(1.5)
x.__rmul__(3)
x.__rfloordiv__(7)
x.__rmod__(7)
i.__rlshift__(1)
i.__rand__(3)
x.__matmul__(y.T)
x.__pow__(0.5)
(2 - x) * 3 / (x + 1)
x.sub(y, alpha=2)
x.div(3, rounding_mode="floor")
x.square().mean().sqrt()
(x - x.mean(0)) / (x.std(0) + 1e-5)
(x * 2 + 1).clamp(min=0, max=5)
x.mul(y).sum(-1)
x.addmm(y, torch.eye(6), alpha=0.5)
x.clamp(y - 1, y)
torch.clamp(x, min=y, max=2 * y)
x.clamp_min(y)
torch.where(x > 1, 0.0, x)
torch.where(x > 1, x, -1)
torch.where(b, True, False)
# Masks and subscripts
x[x > 1] = 0
x[~b] = -1.0
x[b] = y[b] * 2
x[b] *= 2
x[0] += y[1]
x[:, -1] = x[:, 0]
x[k, k] += 1
x[(i == 1) & b]
x[..., [0, 2]]
x[k.tolist()]
x[i[:, 0] > 2, :2]
x[:, None, :] - y[None]
m[..., 0, :]
m[0, :, k] = 1.0
x[torch.arange(4), k4]
x[range(2)]
x.masked_fill(x > 1, float("-inf"))
x.masked_fill(~b, 0).sum(-1)
# Reductions
torch.std_mean(x, dim=1)
torch.std_mean(x, dim=0, unbiased=False, keepdim=True)
torch.var_mean(x)
x.std(dim=(0, 1))
x.var(unbiased=False)
x.argmax(dim=1, keepdim=True)
x.logsumexp(-1, keepdim=True)
x.softmax(-1).argmax(-1)
x.topk(2, dim=0).values
(x.argmax(-1) == k4).float().mean()
x.norm(p=2, dim=-1, keepdim=True)
x.norm("fro")
x.amax(dim=(0, 1), keepdim=True)
x.any(dim=1)
x.max(dim=1).indices
x.nanmedian()
x.min()
x.cumsum(-1)[:, -1]
torch.logsumexp(x, dim=(0, 1))
torch.quantile(x, torch.tensor([0.25, 0.75]), dim=1)
# Contractions
torch.einsum("ij,jk->ik", x, y.T)
torch.einsum("bij->bji", m)
torch.einsum("ij,ij->", x, y)
torch.einsum("bhid,bhjd->bhij", m4, m4)
torch.einsum("ij,j->i", x, v6)
torch.einsum("ij,ik,il->jkl", x, y, x)
torch.einsum("...d,d->...", m, v6)
torch.matmul(m4, m4.transpose(-1, -2))
(m @ m.transpose(1, 2)).softmax(-1) @ m
torch.baddbmm(torch.zeros(2, 4, 4), m, m.mT, beta=0)
torch.linalg.multi_dot([x, y.T, x, y.T])
# Layers
F.cross_entropy(x, k4, reduction="none")
F.cross_entropy(x, k4, weight=p6, label_smoothing=0.1)
F.cross_entropy(im, torch.zeros(2, 4, 8, dtype=torch.int64))
F.cross_entropy(x, p, label_smoothing=0.2)
F.scaled_dot_product_attention(m4, m4, m4, attn_mask=torch.ones(4, 4, dtype=torch.bool))
F.scaled_dot_product_attention(m4, m4, m4, scale=0.5)
F.interpolate(im, scale_factor=(2, 2), mode="bilinear", align_corners=False)
F.interpolate(im, size=(2, 4), mode="area")
F.interpolate(im[:, None], scale_factor=2, mode="trilinear")
F.pad(x, (0, 2, 1, 0))
F.pad(im, (1, 2, 0, 1), mode="circular")
F.pad(im, (1, 1), mode="constant", value=0.5)
F.layer_norm(m, (4, 6))
F.group_norm(im, 4, v, v)
F.rms_norm(x, (6,), v6, 1e-5)
F.batch_norm(im, None, None, training=True)
F.normalize(x, dim=0, p=1)
F.gelu(x).mul(y)
F.softplus(x, beta=2)
F.linear(m, w, v5)
F.max_pool2d(im, 3, stride=1, padding=1)
F.conv2d(im, c2, torch.zeros(2), padding=1)
F.feature_alpha_dropout(im, 0.5, False)
F.dropout1d(m, 0.5)
F.dropout3d(im[None], 0.5)
F.pairwise_distance(x, y)
F.bilinear(x, y, torch.ones(2, 6, 6))
F.softsign(x)
F.tanhshrink(x)
F.hardsigmoid(x)
F.celu(x)
F.softshrink(x)
F.local_response_norm(im, 3)
torch.nn.LSTM(6, 3)(m)
torch.nn.GRU(6, 3, batch_first=True)(m)
torch.nn.RNN(6, 3)(m)
torch.nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0)(m)
torch.nn.MultiheadAttention(6, 2)(m, m, m)
torch.nn.BatchNorm1d(6)(x)
torch.nn.Dropout(0.5)(x)
torch.nn.ConvTranspose2d(4, 2, 2, stride=2)(im)
torch.nn.RMSNorm(6)(x)
# Training steps
torch.nn.functional.mse_loss(torch.nn.Linear(6, 1)(x), v[:, None]).backward()
F.cross_entropy(F.linear(x, w.requires_grad_()), k4).backward()
torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))(x).sum().backward()
(g * y + g).mean().backward()
(g - g.mean()).square().sum().backward()
((g - y) ** 2).mean().backward()
g.relu().mean(0).sum().backward()
(g / 2 + 1).log().sum().backward()
F.gelu(g, approximate="tanh").mean().backward()
F.dropout(g, 0.5).sum().backward()
F.layer_norm(g, (6,), v6, v6).mean().backward()
F.rms_norm(g, (6,)).sum().backward()
F.batch_norm(g, None, None, training=True).sum().backward()
F.softmax(g @ y.T, -1).max(-1).values.sum().backward()
F.scaled_dot_product_attention(g[None, None], m4, m4).sum().backward()
F.normalize(g).sum().backward()
F.cosine_similarity(g, y).sum().backward()
F.l1_loss(g, y).backward()
F.smooth_l1_loss(g, y).backward()
F.huber_loss(g, y).backward()
F.nll_loss(F.log_softmax(g, -1), k4).backward()
F.kl_div(F.log_softmax(g, -1), p, reduction="batchmean").backward()
F.binary_cross_entropy(torch.sigmoid(g), p).backward()
F.logsigmoid(g).mean().backward()
F.leaky_relu(g).sum().backward()
F.elu(g).sum().backward()
F.conv2d(im.requires_grad_(), c2).sum().backward()
F.max_pool2d(im.requires_grad_(), 2).sum().backward()
F.avg_pool2d(im.requires_grad_(), 2).sum().backward()
F.interpolate(im.requires_grad_(), scale_factor=2).sum().backward()
g.split(2)[0].sum().backward()
g.chunk(2, 1)[1].sum().backward()
sum(each.sum() for each in g.unbind(0)).backward()
g.permute(1, 0).reshape(2, 12).sum(0).prod().backward()
g.reshape(-1)[::2].sum().backward()
g[b].sum().backward()
g[:, 0].sum().backward()
torch.masked_select(g, b).sum().backward()
g.max().backward()
g.min(1).values.sum().backward()
g.logsumexp(0).sum().backward()
g.norm(dim=1).sum().backward()
g.std(1).sum().backward()
g.mean((0, 1)).backward()
g.cumprod(0).sum().backward()
g.clamp(min=1).sum().backward()
torch.maximum(g, y).sum().backward()
torch.where(g > 1, g, 0).sum().backward()
torch.outer(g[0], g[1]).sum().backward()
torch.bmm(m, m.mT).matmul(g[:, :4]).sum().backward()
torch.tril(g).sum().backward()
g.flip(0).sum().backward()
g.float().double().sum().backward()
(g * b).sum().backward()
(g ** 3).sum().backward()
(2 ** g).sum().backward()
(g ** y).sum().backward()
(1 / g).sum().backward()
g.sqrt().sum().backward()
g.rsqrt().sum().backward()
g.sin().cos().sum().backward()
g.erf().sum().backward()
torch.atan2(g, y).sum().backward()
torch.addcmul(y, g, g, value=0.5).sum().backward()
torch.lerp(g, y, 0.5).sum().backward()
g.sum().backward(retain_graph=True)
torch.autograd.grad((g ** 2).sum(), g, create_graph=True)[0].sum().backward()
optimizer = torch.optim.SGD([g], momentum=0.9); (g * 2).sum().backward(); optimizer.step(); optimizer.zero_grad()
optimizer = torch.optim.Adam([g], lr=0.1); (g * 2).sum().backward(); optimizer.step()
optimizer = torch.optim.AdamW([g], foreach=True); (g * 2).sum().backward(); optimizer.step()
optimizer = torch.optim.SGD([g], lr=0.1, foreach=True, weight_decay=0.1); (g * 2).sum().backward(); optimizer.step()
torch._foreach_add([x, y], 1.0)
torch._foreach_mul_([x, y], 0.5)
torch._foreach_norm([x, y])
torch.nn.utils.clip_grad_norm_([g.requires_grad_()], 1.0)
torch.nn.utils.parameters_to_vector([x, y])
# Shapes, factories and dtypes
torch.zeros(3, dtype=torch.int64) + 1
torch.ones_like(x, dtype=torch.bool)
torch.full_like(i, 2.5, dtype=torch.float32)
torch.arange(3.0) * 2
torch.arange(6).view(2, 3)[:, 1]
torch.linspace(-1, 1, 3).unsqueeze(0)
torch.cat([x, torch.zeros(1, 6)])
torch.stack(x.unbind(0), 1)
x.view(2, -1, 6).transpose(0, 1).contiguous()
x.reshape(2, 2, 6).permute(2, 0, 1).flatten(1)
x.to(torch.bfloat16).float()
x.to(dtype=torch.float64, copy=True)
x.type(torch.int32)
x.new_zeros(x.shape)
torch.triu(torch.ones(3, 3), diagonal=1).bool()
torch.eye(3).diagonal().sum()
x.squeeze(0).unsqueeze(1).expand(-1, 2, -1)
x.view(-1, 1, 6).expand(4, 3, 6).reshape(12, 6)
torch.broadcast_tensors(v[:, None], x)
torch.tensor([[1.0, 2.0]]).T
torch.as_tensor([1.0, 2.0]) + x[0, :2]
torch.from_numpy(x.numpy())
x.size(0) * x.stride(0)
x.is_floating_point() and x.shape == y.shape
copy = x.clone(); copy.zero_()
x.detach().clone().requires_grad_()
x.lt(1).logical_and(y.gt(0)).sum()
x.unfold(1, 2, 2).mean(-1)
torch.nonzero(b)
torch.nonzero(b, as_tuple=True)
torch.argwhere(b)
x.eq(y).all()
x.isclose(y).any()
# Several views as one operator, and gradients of both operands
g.split([1, 3])[1].sum().backward()
g.unbind(0)[0].sum().backward()
(g * 2).chunk(1)[0].sum().backward()
g.unsafe_chunk(2)[0].sum().backward()
g.unsafe_split_with_sizes([1, 3])[0].sum().backward()
x.unsafe_chunk(2)
F.conv2d(im.requires_grad_(), c2, torch.zeros(2).requires_grad_(), padding=1).sum().backward()
F.conv1d(im[0], c1.requires_grad_(), padding="same").sum().backward()
torch.nn.Conv2d(4, 2, 3)(im).sum().backward()
h = y.requires_grad_(); (g * h).sum().backward()
h = y.requires_grad_(); (g / h).sum().backward()
h = y.requires_grad_(); (g @ h.T).sum().backward()
h = y.requires_grad_(); torch.where(b, g, h).sum().backward()
h = y.requires_grad_(); torch.maximum(g, h).sum().backward()
h = y.requires_grad_(); torch.minimum(g, h).sum().backward()
torch.masked_select(g[0], b).sum().backward()
F.selu(g).sum().backward()
F.pad(im, (2, -1, -1, 2), mode="circular")
torch.nn.MultiheadAttention(6, 2)(m, m + 1, m)
torch.nn.MultiheadAttention(6, 2, batch_first=True)(m, m, m, need_weights=False)
torch.nn.MultiheadAttention(6, 2)(x, x, x)
torch.nn.TransformerDecoderLayer(6, 2, 8, dropout=0.0)(m, m)
torch.nn.LSTM(6, 3, 2, bidirectional=True, dtype=torch.float64)(m.double())
torch.nn.GRU(6, 3)(m)[0].sum().backward()
torch.nn.RNNCell(6, 3)(x)
"""


def calls() -> list[str]:
    """Return the calls, one a line."""
    return [line for line in CALLS.splitlines() if line and not line.startswith("#")]


def operands(torch: Any) -> dict[str, Any]:
    """Return new operands of the calls, by name, and the modules that they name."""
    ramp = torch.arange(24.0).reshape(4, 6)
    made = {
        "x": ramp / 10 + 0.5,
        "y": 3 - ramp / 11,
        "p": (ramp + 1) / 25,
        "i": torch.arange(24).reshape(4, 6) % 5 + 1,
        "j": torch.arange(24).reshape(4, 6) % 3,
        "b": ramp > 11,
        "k": torch.tensor([0, 2, 3]),
        "k4": torch.tensor([1, 1, -1, 1]).abs(),
        "s": torch.tensor(0.25),
        "v": torch.tensor([1.0, 2.0, 3.0, 4.0]),
        "v5": torch.arange(5.0),
        "v6": torch.arange(6.0),
        "p6": torch.arange(6.0) + 1,
        "w": torch.arange(30.0).reshape(5, 6),
        "q": torch.eye(4) * 2 + 0.1,
        "m": torch.arange(48.0).reshape(2, 4, 6),
        "m4": torch.arange(48.0).reshape(1, 2, 4, 6) / 48,
        "im": torch.arange(256.0).reshape(2, 4, 4, 8) / 256,
        "c1": torch.arange(24.0).reshape(2, 4, 3),
        "c2": torch.arange(72.0).reshape(2, 4, 3, 3),
        "c3": torch.arange(108.0).reshape(2, 2, 3, 3, 3),
        "c2t": torch.arange(72.0).reshape(4, 2, 3, 3),
        "g": (ramp / 10 + 0.5).requires_grad_(),
        "z": torch.zeros(4, 6),
    }
    return {**made, "torch": torch, "F": torch.nn.functional}


def kind_of(value: Any, tensor: type) -> str:
    """Return what an argument is, without its value: ``Tensor``, ``int``, ``[int, int]``."""
    if isinstance(value, tensor):
        return "Tensor"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(kind_of(each, tensor) for each in value) + "]"
    return type(value).__name__


def described(name: str, args: Any, kwargs: Any, tensor: type) -> str:
    """Return one dispatched call as text, without the options of factories."""
    given = [kind_of(value, tensor) for value in args]
    given += [f"{key}={kind_of(kwargs[key], tensor)}" for key in sorted(kwargs) if key not in OPTIONS]
    return f"{name}({', '.join(given)})"


def recorded(call: str, torch: Any, recorder: Callable[[list[str]], Any]) -> list[str]:
    """Return what a mode sees of a call; `recorder` makes a mode that appends to a list."""
    names = operands(torch)
    torch.manual_seed(0)
    seen: list[str] = []
    with recorder(seen):
        exec(call, names)
    is_recorded = ".backward(" in call or call.startswith("torch.nn.")
    return [each for each in seen if each != DETACH] if is_recorded else seen


def main() -> None:
    """Write the table with PyTorch."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        def __init__(self, seen: list[str]) -> None:
            super().__init__()
            self.seen = seen

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen.append(described(str(func), args, kwargs or {}, torch.Tensor))
            return func(*args, **(kwargs or {}))

    table = {call: recorded(call, torch, Recorder) for call in calls()}
    TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
