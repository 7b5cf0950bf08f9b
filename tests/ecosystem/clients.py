"""The libraries that are tried, and the calls."""

from __future__ import annotations

from .client import Call, Client

__all__ = ["CLIENTS"]


def _tensors(*texts: str, **options: object) -> tuple[Call, ...]:
    return tuple(Call(text, **options) for text in texts)  # type: ignore[arg-type]


EINOPS = Client(
    "einops",
    ("einops",),
    "import einops",
    (
        Call("einops.rearrange(x, 'a b -> b a')", shares=True),
        Call("einops.rearrange(x, 'a (b c) -> b a c', b=2)", shares=True),
        Call("einops.repeat(x, 'a b -> a c b', c=3)", shares=True),
        *_tensors(
            "einops.reduce(x, 'a (b c) -> c', 'mean', b=2)",
            "einops.reduce(x, 'a b -> a', 'max')",
            "einops.pack([x, x[:, 0]], 'a *')[0]",
            "einops.einsum(x, y, 'a b, c b -> a c')",
        ),
    ),
)

EINOPS_ARRAY_API = Client(
    "einops.array_api",
    ("einops",),
    "import einops.array_api",
    (
        Call("einops.array_api.rearrange(x, 'a b -> b a')", shares=True),
        Call("einops.array_api.repeat(x, 'a b -> a c b', c=3)", shares=True),
        *_tensors(
            "einops.array_api.reduce(x, 'a (b c) -> c', 'mean', b=2)",
            "einops.array_api.pack([x, x[:, 0]], 'a *')[0]",
        ),
    ),
)

OPT_EINSUM = Client(
    "opt_einsum",
    ("opt_einsum",),
    "import opt_einsum",
    _tensors(
        "opt_einsum.contract('ab,cb->ac', x, y)",
        "opt_einsum.contract('ab,bc,dc,ad->a', x, m, y, x @ m @ y.T)",
        "opt_einsum.contract('ab,cd->abcd', x, y)",
        "opt_einsum.contract('aa->', m)",
        "opt_einsum.contract_expression('ab,bc,cd->ad', (4, 6), (6, 6), (6, 6))(x, m, m)",
    ),
)

SCIPY = Client(
    "SciPy",
    ("scipy",),
    "import scipy.cluster.vq, scipy.fft, scipy.integrate, scipy.ndimage, scipy.optimize.elementwise, scipy.signal\n"
    "import scipy.spatial.transform, scipy.special, scipy.stats, scipy.constants, scipy.differentiate",
    (
        *_tensors(
            "scipy.special.expit(x)",
            "scipy.special.erf(x)",
            "scipy.special.gammaln(y)",
            "scipy.special.logsumexp(x, axis=1)",
            "scipy.special.softmax(x, axis=1)",
            "scipy.special.log_softmax(x, axis=1)",
            "scipy.special.xlogy(y, y)",
            "scipy.special.i0(x)",
            "scipy.fft.fft(v)",
            "scipy.fft.irfft(scipy.fft.rfft(x))",
            "scipy.fft.fftshift(v)",
            "scipy.signal.fftconvolve(v, w, mode='same')",
            "scipy.signal.oaconvolve(v, w)",
            "scipy.signal.hilbert(v)",
            "scipy.signal.windows.hann(8, xp=xp)",
            "scipy.cluster.vq.whiten(y)",
            "scipy.stats.zscore(x, axis=1)",
            "scipy.stats.skew(v)",
            "scipy.stats.kurtosis(v)",
            "scipy.stats.entropy(y, axis=0)",
            "scipy.stats.gmean(y)",
            "scipy.integrate.trapezoid(x)",
            "scipy.integrate.cumulative_simpson(x)",
            "scipy.constants.convert_temperature(v, 'C', 'K')",
            "scipy.differentiate.derivative(xp.exp, xp.asarray(0.5)).df",
            "scipy.optimize.elementwise.find_root(lambda t: t**3 - 2, (xp.asarray(0.0), xp.asarray(2.0))).x",
            "scipy.spatial.transform.Rotation.from_rotvec(v[:3]).apply(w[:3])",
        ),
        *_tensors(
            "scipy.signal.detrend(v)",
            "scipy.ndimage.gaussian_filter(x, 1.0)",
            "scipy.cluster.vq.vq(x, y)[1]",
            "scipy.stats.ttest_ind(v, w).statistic",
            "scipy.stats.pearsonr(v, w).statistic",
            cuda=False,
        ),
    ),
    {"SCIPY_ARRAY_API": "1"},
)

SCIKIT_LEARN = Client(
    "scikit-learn",
    ("sklearn",),
    "import sklearn, sklearn.decomposition, sklearn.discriminant_analysis, sklearn.linear_model, sklearn.metrics\n"
    "import sklearn.metrics.pairwise, sklearn.model_selection, sklearn.preprocessing\n"
    "sklearn.set_config(array_api_dispatch=True)",
    (
        *_tensors(
            "sklearn.preprocessing.StandardScaler().fit_transform(x)",
            "sklearn.preprocessing.MinMaxScaler().fit_transform(x)",
            "sklearn.preprocessing.MaxAbsScaler().fit_transform(x)",
            "sklearn.preprocessing.Normalizer().fit_transform(x)",
            "sklearn.preprocessing.PolynomialFeatures(2).fit_transform(x)",
            "sklearn.linear_model.Ridge(solver='svd').fit(m, v[:6]).predict(m)",
            "abs(sklearn.decomposition.PCA(2, svd_solver='full').fit(x).components_)",
            "sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver='svd')"
            ".fit(v.reshape((24, 1)), k).predict(v.reshape((24, 1)))",
            "sklearn.model_selection.train_test_split(x, random_state=0)[0]",
            "sklearn.metrics.pairwise.cosine_similarity(x, y)",
            "sklearn.metrics.pairwise.euclidean_distances(x, y)",
            "sklearn.metrics.pairwise.rbf_kernel(x, y)",
        ),
        *_tensors(
            "sklearn.metrics.accuracy_score(k, k)",
            "sklearn.metrics.mean_squared_error(v, w)",
            "sklearn.metrics.mean_absolute_error(v, w)",
            "sklearn.metrics.r2_score(v, w)",
            gives="other",
        ),
        Call("sklearn.metrics.f1_score(k, k, average='macro')", gives="other", cuda=False),
    ),
    {"SCIPY_ARRAY_API": "1"},
)

ARRAY_API_EXTRA = Client(
    "array-api-extra",
    ("array_api_extra",),
    "import array_api_extra as xpx",
    (
        Call("xpx.atleast_nd(v, ndim=2)", shares=True),
        Call("xpx.expand_dims(x, axis=(0, 1))", shares=True),
        Call("xpx.at(x)[0].set(1.0)", shares=True),
        *_tensors(
            "xpx.cov(x)",
            "xpx.create_diagonal(v[:3])",
            "xpx.kron(x, y)",
            "xpx.nunique(k)",
            "xpx.pad(x, 1)",
            "xpx.setdiff1d(k, k[:1])",
            "xpx.sinc(x)",
            "xpx.isclose(x, x)",
            "xpx.one_hot(k, 3)",
        ),
    ),
)

ARRAY_API_COMPAT = Client(
    "array-api-compat",
    ("array_api_compat",),
    "import array_api_compat",
    (
        Call("array_api_compat.array_namespace(x).sin(x)"),
        Call("array_api_compat.to_device(x, array_api_compat.device(x))", shares=True),
        Call("array_api_compat.is_array_api_obj(x)", gives="other", expected="True"),
        Call("array_api_compat.size(x)", gives="other"),
    ),
)

MATPLOTLIB = Client(
    "Matplotlib",
    ("matplotlib",),
    "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt",
    (
        Call("plt.plot(v, w)[0].get_ydata()", shares=True, cuda=False),
        Call("plt.imshow(x).get_array().data", gives="array", cuda=False),
        Call("plt.hist(v)[0]", gives="array", cuda=False),
        Call("plt.scatter(v, w, c=k).get_offsets().data", gives="array", cuda=False),
        Call("[bar.get_height() for bar in plt.bar(k, v)]", gives="other", cuda=False),
        Call("plt.contourf(x).get_array()", gives="array", cuda=False),
        Call("plt.fill_between(v, w)", gives="other", expected=None, cuda=False),
    ),
)

PANDAS = Client(
    "pandas",
    ("pandas",),
    "import pandas",
    (
        Call("pandas.DataFrame(x).to_numpy()", gives="array", cuda=False),
        Call("pandas.Series(v).to_numpy()", gives="array", shares=True, cuda=False),
        Call(
            "pandas.DataFrame({'v': v, 'k': k}).groupby('k').v.mean().to_numpy()", gives="array", cuda=False
        ),
        Call("pandas.Series(k).value_counts().to_dict()", gives="other", cuda=False),
    ),
)

DASK = Client(
    "Dask",
    ("dask",),
    "import dask.array as da\na = da.from_array(x, chunks=3)",
    (
        *_tensors(
            "(a * 2 + 1).compute()",
            "a.sum().compute()",
            "a.mean(axis=0).compute()",
            "a.std(axis=1).compute()",
            "a.max(axis=1).compute()",
            "a.cumsum(axis=0).compute()",
            "(a @ a.T).compute()",
            "da.tensordot(a, a, axes=([1], [1])).compute()",
            "da.einsum('ij,kj->ik', a, a).compute()",
            "da.exp(a).compute()",
            "a[1:3, ::2].compute()",
            "a[[0, 2, 3]].compute()",
            "da.concatenate([a, a], axis=1).compute()",
            "da.stack([a, a]).compute()",
            "a.rechunk((2, 6)).T.compute()",
            "a.map_blocks(lambda block: block * 2).compute()",
            "(a > 0).any(axis=0).compute()",
            "a.astype('float64').compute()",
        ),
        Call("a.to_backend('numpy').compute()", gives="array"),
        Call("da.where(a > 0, a, 0).compute()", gives="array", cuda=False),
        Call("da.histogram(a, bins=3, range=(-3, 3))[0].compute()", gives="array", cuda=False),
    ),
)

XARRAY = Client(
    "xarray",
    ("xarray",),
    "import xarray as xr\na = xr.DataArray(x, dims=('row', 'column'))",
    (
        Call("a.data", shares=True),
        Call("a.isel(row=slice(1, 3)).data", shares=True),
        Call("a.transpose('column', 'row').data", shares=True),
        *_tensors(
            "(a * 2 + 1).data",
            "a.sum().data",
            "a.mean('row').data",
            "a.max('column').data",
            "xr.concat([a, a], 'row').data",
            "xr.where(a > 0, 1.0, 0.0).data",
            "xr.dot(a, a, dim='column').data",
        ),
    ),
)

ZARR = Client(
    "Zarr",
    ("zarr",),
    "import zarr\n"
    "stored = zarr.create_array(store={}, shape=(4, 6), chunks=(2, 3), dtype='float32')\n"
    "stored[:] = x",
    (
        Call("stored[:]", gives="array", cuda=False),
        Call("xp.asarray(stored[1:3])", cuda=False),
    ),
)

CLIENTS = (
    EINOPS,
    EINOPS_ARRAY_API,
    OPT_EINSUM,
    SCIPY,
    SCIKIT_LEARN,
    ARRAY_API_EXTRA,
    ARRAY_API_COMPAT,
    MATPLOTLIB,
    PANDAS,
    DASK,
    XARRAY,
    ZARR,
)
