"""Matmul with an epilogue on CUDA: one Triton program, and its launch.

The program is the eager matmul's, with the same tiles of the K dimension and another end. Accumulators are rounded to
the matmul's dtype, and the epilogue is written as in a pointwise kernel, each step rounded to the dtype that it has in
the program. So results are bitwise identical to eager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...triton_kernels.conversion import triton_type
from ...triton_kernels.convolution.convolution import plan_fused as plan_fused_convolution
from ...triton_kernels.convolution.layout_kernels import lay_out
from ...triton_kernels.elementwise.elementwise import HEAVY
from ...triton_kernels.launch import INT32_MAX
from ...triton_kernels.products.epilogue import finish
from ...triton_kernels.products.fused import NUMBERS, plan_fused
from ...triton_kernels.products.problem import CannotFuse, FusedEpilogue
from ...triton_kernels.random.random import start_of_draws
from ..channel_norms import ChannelNormCall
from ..draws import DropoutCall
from ..epilogues import operand_terms, result_spec
from ..pointwise import PointwiseCall
from ..product_kernel import EpilogueCall, ProductKernel
from .channel_norms import normalised_lines
from .convolutions import CONVOLUTIONS, EPILOGUE_OF_PIXELS, EPILOGUE_OF_PLANES
from .draws import function_name, kept_of_tile_lines, start_lines
from .gluon_products import KERNELS as GLUON_KERNELS
from .gluon_products import gluon_text, makes_blocks
from .launch_arguments import LaunchArguments
from .layouts import FORM as LAID_OUT
from .layouts import layout_text
from .pointwise import import_of
from .product_forms import ADDENDS, EPILOGUE, HEADER, KERNELS, QUADS, entry_text, import_text, unpacked_text
from .prologues import WrittenPrologue, nodes_of, prologue_text
from .source_files import module_of
from .source_text import type_text
from .tile_text import MARGIN, load_text, offset_by, reach, step_lines


class Layout(NamedTuple):
    """Names of a tile's indices in a program.

    Attributes:
        batch, rows, columns: The indices: one for each row, and one for each column, of the tile. Without a batch,
            `batch` is "".
        batch_by_column: True if columns are of several batches; else the batch is a number.
        pitch, apart: The strides of a row and of a batch in the results.
    """

    batch: str
    rows: str
    columns: str
    batch_by_column: bool
    pitch: str
    apart: str


OF_PRODUCTS = Layout("batch", "rows", "columns", False, "n", "m * n")
OF_PLANES = Layout("images", "filters", "pixels", True, "yc", "yn")
OF_PIXELS = Layout("", "positions", "filters", False, "pitch", "")


class WrittenEpilogue:
    """Source of a matmul's epilogue.

    Attributes:
        stores_product: True if the matmul is a result, too.
        draws: The launch arguments of random ops.
        pointers: The types of arguments besides the matmul's own pointers, by name: pointers of operands and of
            results, seeds, and pointers of prologues.
        elements: The names of the pointers to a single element.
        operands: The nodes that the epilogue reads.
        prologues: The sources of the prologues.
        sources: The tensors that the matmul kernel loads instead of operands that it computes.
        results: The steps that are stored, without the matmul.
        forms: The forms of the requested kernels.
    """

    def __init__(self, kernel: ProductKernel) -> None:
        self.kernel = kernel
        product = kernel.product.node
        roots = dict.fromkeys(kernel.root(node) for node in kernel.outputs)
        self.stores_product = product in roots
        self.prologues = [WrittenPrologue(each) for each in kernel.prologues]
        sources = {each.is_left: each.source() for each in self.prologues}
        self.sources = sources.get(True), sources.get(False)
        self.operands = kernel.operands
        self.results = [node for node in roots if node is not product]
        nodes = {f"x{i}": node for i, node in enumerate(self.operands)}
        nodes |= {f"y{i}": node for i, node in enumerate(self.results)}
        specs = {name: result_spec(node) for name, node in nodes.items()}
        self.pointers = {name: f"*{spec.dtype.triton_name}" for name, spec in specs.items()}
        self.elements = tuple(name for name, spec in specs.items() if spec.numel == 1)
        self.draws = LaunchArguments(kernel.device, draws=kernel.draws)
        self.pointers |= self.draws.signature
        self.elements += tuple(self.draws.elements)
        for each in self.prologues:
            self.pointers |= each.pointers
            self.elements += each.elements
        self.forms: list[str] = []

    @property
    def first(self) -> tuple[Node, str]:
        """The first result, and its name in the program."""
        if self.stores_product:
            return self.kernel.product.node, "product"
        return self.results[0], self._names()[self.results[0]]

    def _names(self) -> dict[Node, str]:
        """Return the names of the values of the epilogue's steps."""
        names: dict[Node, str] = {}
        for i, call in enumerate(self.kernel.epilogue):
            if isinstance(call, DropoutCall):
                names |= {node: f"{'vk'[index]}{i}" for index, node in call.results.items()}
            else:
                names[call.node] = f"v{i}"
        return names

    def _body(self, layout: Layout, imports: dict[Any, str], keeps_first: bool = False) -> list[str]:
        """Return the lines that compute the epilogue of `product`; `imports` are the functions that they call.

        With `keeps_first` the first result is not stored.
        """
        kernel = self.kernel
        product = kernel.product.node
        rows, columns = layout.rows, layout.columns
        is_wide = max(reach(node) for node in (product, *self.operands)) + MARGIN > INT32_MAX
        lines = [f"{i} = {i}.to(tl.int64)" for i in layout[:3] if i] if is_wide else []
        offset = f"{rows}[:, None] * {layout.pitch} + {columns}[None, :]"
        if layout.batch_by_column:
            offset = (
                f"{rows}[:, None] * {layout.pitch} + ({layout.batch} * {layout.apart} + {columns})[None, :]"
            )
        elif kernel.sizes[0] > 1:
            offset = f"{layout.batch} * {layout.apart} + {offset}"
        stored = {node: f"y{i}" for i, node in enumerate(self.results)}
        if self.stores_product:
            stored[product] = "out"
        if keeps_first:
            del stored[self.first[0]]
        if product in stored:
            lines.append(f"tl.store(out + {offset}, product, mask=mask)")
        specs = {node: node.val for node in kernel.inputs} | {c.node: c.node.val for c in kernel.calls}
        values: dict[Node, str] = {node: "product" for node in specs if kernel.root(node) is product}
        loaded: dict[Any, str] = {}
        names = self._names()
        if kernel.draws:
            lines.append(QUADS)
            lines += start_lines(len(kernel.draws), function_name(imports, start_of_draws))
        for call in kernel.epilogue:
            own = dict(values)
            for node in [o for o in call.operands if isinstance(o, Node)]:
                if node in self.operands:
                    own[node] = self._loaded(lines, loaded, node, call, layout)
                else:
                    own[node] = values[kernel.root(node)]
            made = [call.node]
            if isinstance(call, ChannelNormCall):
                lines += normalised_lines(call, names[call.node], own, imports)
            elif isinstance(call, DropoutCall):
                made = list(call.results.values())
                number = kernel.draws.index(call)
                lines += kept_of_tile_lines(
                    call, number, own[call.source], kernel.sizes[0] > 1, names, imports
                )
            else:
                lines += step_lines(call, names[call.node], own, specs, imports)
            for node in made:
                values[node] = names[node]
                if node in stored:
                    lines.append(f"tl.store({stored[node]} + {offset}, {names[node]}, mask=mask)")
        return lines

    def _loaded(
        self, lines: list[str], loaded: dict[Any, str], node: Node, reader: EpilogueCall, layout: Layout
    ) -> str:
        """Return the name of an operand as a step sees it, and load it if necessary."""
        terms = operand_terms(self.kernel, reader, node)
        assert terms is not None
        is_broadcast = not isinstance(reader, ChannelNormCall) or node is reader.input
        key = node, terms, is_broadcast
        if key in loaded:
            return loaded[key]
        name = loaded[key] = f"l{len(loaded)}"
        b, m, n = self.kernel.sizes
        batch, rows, columns = terms
        pointer = f"x{self.operands.index(node)}"
        by_batch = offset_by(layout.batch, batch, b, {m * n: layout.apart})
        by_row = offset_by(layout.rows, rows, m, {n: layout.pitch})
        by_column = offset_by(layout.columns, columns, n, {})
        if by_batch and layout.batch_by_column:
            by_column = f"{by_batch} + {by_column}" if by_column else by_batch
        elif by_batch:
            pointer += f" + {by_batch}"
        lines.append(f"{name} = {load_text(pointer, by_row, by_column, 'is_row', 'is_column', 'mask')}")
        if is_broadcast and (by_row or by_column):
            lines.append(f"{name} = tl.broadcast_to({name}, mask.shape)")
        return name

    def _has_addend_of_rows(self) -> bool:
        """Return True if the matmul adds the same bias to each of its rows."""
        if self.kernel.is_channels_last:
            return True
        addend = self.kernel.product.values[0]
        return isinstance(addend, Node) and addend.val.sizes[:-1] in ((), (1,))

    def text(self, form: str) -> str:
        """Return the source of a form of matmuls with this epilogue."""
        convolves, is_last = form in CONVOLUTIONS, self.kernel.is_channels_last
        is_gluon = form in GLUON_KERNELS
        imports: dict[Any, str] = {}
        layout = (OF_PIXELS if is_last else OF_PLANES) if convolves else OF_PRODUCTS
        lines = self._body(layout, imports, keeps_first=is_gluon)
        if form.startswith(LAID_OUT):
            return self._text_of_copies(form)
        product = self.kernel.product.node
        names = [call.node.target.name().removeprefix("aten::") for call in self.kernel.computed]
        filled = {
            "name": self.kernel.name,
            "unpacked": unpacked_text(list(self.pointers)),
            "what": f"{', '.join(names)}.",
            "product": product.target.name().replace("::", "."),
            "type": type_text(triton_type(product.val.dtype)),
            "addend": ADDENDS["row" if self._has_addend_of_rows() else "tile"],
            "body": "\n".join(f"    {line}" for line in lines),
        }
        if is_gluon:
            functions = [import_of(function, name) for function, name in imports.items()]
            filled |= {"imports": "\n".join(functions), "first": self.first[1]}
            return gluon_text(form, list(self.pointers), filled)
        end = (EPILOGUE_OF_PIXELS if is_last else EPILOGUE_OF_PLANES) if convolves else EPILOGUE
        return self._triton_text(form, end, filled, imports)

    def _triton_text(self, form: str, end: str, filled: Mapping[str, str], imports: dict[Any, str]) -> str:
        """Return the source of a form in Triton: its epilogue, from the template `end`, and its prologue.

        A form of ``sums`` stores sums without the epilogue.
        """
        name, kernel = self.kernel.name, {**KERNELS, **CONVOLUTIONS}[form.removesuffix(" sums")]
        is_sums = form.endswith(" sums")
        pointers = list(self.pointers)
        if is_sums:
            pointers = [each for written in self.prologues for each in written.pointers]
        texts, functions = [], {}
        if self.prologues and "PROLOGUE" in kernel.arg_names:
            texts.append(prologue_text(name, self.prologues, pointers, imports))
            functions["PROLOGUE"] = f"{name}_prologue"
        form_imports = [import_text(kernel)]
        if not is_sums:
            texts.append(end.format(**filled))
            functions["EPILOGUE"] = f"{name}_epilogue"
            if end is EPILOGUE:
                form_imports.append(import_text(finish))
        scalar_functions = [import_of(function, each) for function, each in imports.items()]
        header = HEADER.format(what=filled["what"], imports="\n".join([*form_imports, *scalar_functions]))
        return "".join([header, *texts, entry_text(kernel, name, pointers, functions)])

    def _text_of_copies(self, form: str) -> str:
        """Return the source of a form of a convolution's copies."""
        imports: dict[Any, str] = {}
        text = layout_text(form, self.kernel.name, self.prologues, imports)
        names = [call.node.target.name().removeprefix("aten::") for call in self.kernel.computed]
        functions = [import_of(function, name) for function, name in imports.items()]
        description = f"{', '.join(names)}: operands."
        return HEADER.format(what=description, imports="\n".join([import_text(lay_out), *functions])) + text

    def compiled(self, form: str) -> Any:
        """Return the kernel of a form. Raise CannotFuse if a step cannot be written in its language."""
        if form in GLUON_KERNELS:
            if self.kernel.draws:
                raise CannotFuse("draws make blocks of their own, which have no layout in Gluon")
            for call in self.kernel.epilogue:
                if isinstance(call, PointwiseCall) and makes_blocks(_function_of(call)):
                    raise CannotFuse(f"{call.node.target.name()} has no layout in Gluon")
        self.forms.append(form)
        return getattr(module_of(self.text(form)), self.kernel.name)


def planned(kernel: ProductKernel) -> tuple[WrittenEpilogue, Callable[..., None], tuple[str, ...]]:
    """Return a kernel's source, its launch, and the matmul's operands in launch order.

    Raise CannotFuse if the matmul kernel takes no epilogue.
    """
    if any(
        isinstance(c, PointwiseCall) and c is not kernel.product and _is_heavy(c) for c in kernel.computed
    ):
        raise CannotFuse(
            "a step of its epilogue, or of a prologue, takes the registers of a kernel of its own"
        )
    if kernel.draws and (kernel.product.node.target._opname == "convolution" or kernel.sizes[2] % 4):
        raise CannotFuse("four numbers that are drawn together are of several rows")
    written = WrittenEpilogue(kernel)
    product = kernel.product
    specs = {node: node.val for node in product.node.all_input_nodes}
    call, _ = product.planned(specs)
    bound = dict(zip(call.args, product.values, strict=True))
    numbers = {name: bound[name] for name in NUMBERS if name in bound}
    if any(isinstance(number, Node) for number in numbers.values()):
        raise CannotFuse("it is scaled by a number that is computed")
    sums = FusedEpilogue(
        lambda form: written.compiled(f"{form} sums"),
        {name: type_ for each in written.prologues for name, type_ in each.pointers.items()},
        tuple([name for each in written.prologues for name in each.elements]),
        1,
        sources=written.sources,
    )
    fused = FusedEpilogue(
        written.compiled,
        written.pointers,
        written.elements,
        kernel.tiles,
        kernel.is_channels_last,
        written.sources,
        result_spec(written.first[0]).dtype,
        sums if written.prologues else None,
        bool(kernel.epilogue),
    )
    if call.name == "convolution":
        launch, names = plan_fused_convolution(call, fused)
    else:
        launch, names = plan_fused(call, numbers, fused)
    return written, launch, names


def _is_heavy(call: PointwiseCall) -> bool:
    """Return True if a step uses many registers."""
    return _function_of(call) in HEAVY


def _function_of(call: PointwiseCall) -> Any:
    """Return the scalar function of a step."""
    element = call.planned({o: o.val for o in call.operands if isinstance(o, Node)})[1].element
    assert element is not None
    return element.function


def is_served(kernel: ProductKernel) -> bool:
    """Return True if the matmul kernel takes the epilogue."""
    try:
        planned(kernel)
    except CannotFuse:
        return False
    return True


def device_product_kernel(kernel: ProductKernel) -> Callable[..., tuple[Any, ...]]:
    """Return a function from the buffers of a kernel's inputs to those of its outputs."""
    written, launch, names = planned(kernel)
    call, _ = kernel.product.planned({node: node.val for node in kernel.product.node.all_input_nodes})
    values = dict(zip(call.args, kernel.product.values, strict=True))
    product = kernel.product.node
    index_of = {node: i for i, node in enumerate(kernel.inputs)}
    loaded = {each.operand: each.source for each in kernel.prologues}
    buffers = [*([product] if written.stores_product else []), *written.results]
    allocators = [allocator_of(result_spec(node)) for node in buffers]
    count = len(kernel.inputs)
    order = [index_of[loaded.get(values[name], values[name])] for name in names]
    order += [count, *(index_of[node] for node in written.operands)]
    order += [count + buffers.index(node) for node in written.results]
    order += [count + len(buffers) + i for i in range(len(written.draws.signature))]
    order += [index_of[node] for node in nodes_of(written.prologues)]
    results = [buffers.index(kernel.root(node)) for node in kernel.outputs]

    def run(*inputs: Any) -> tuple[Any, ...]:
        outs = [new() for new in allocators]
        addresses = [x.address for x in (*inputs, *outs)]
        launch(*[addresses[i] for i in order])
        return tuple([outs[i] for i in results])

    def drawing(*inputs: Any) -> tuple[Any, ...]:
        outs = [new() for new in allocators]
        arguments = [x.address for x in (*inputs, *outs)] + written.draws.numbers()
        launch(*[arguments[i] for i in order])
        return tuple([outs[i] for i in results])

    return drawing if kernel.draws else run


def write_product_kernel(kernel: ProductKernel) -> str:
    """Return the source of a kernel, in the forms in which it is launched."""
    written, _, _ = planned(kernel)
    return "\n\n".join([written.text(form) for form in dict.fromkeys(written.forms)])
