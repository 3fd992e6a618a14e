"""Files as other tools write them -> the same networks in the form that the importers and `harness.model.parse` read.

Each step below changes the model in place and returns a note of what it changed.  ONNX Runtime without optimisations
then computes file and result for random inputs (`Simplified.check`).

    functions   local functions of operators that no layer reads are inlined, and those that ONNX states for operators
    opset       versions after NEWEST_OPSET become it, where that changes no operator
    layout      recurrent operators have layout 0
    domains     operators that ONNX Runtime does not have get their functions
    inputs      initializers are no inputs: a caller cannot replace them
    opset       versions before 13 become 13 (onnx.version_converter)
    classic     operators of ai.onnx.ml become those of ONNX's own domain
    folding     what depends on shapes and constants only becomes a constant, for one vector; If, Loop and Scan that
                depend on them only become the nodes of their graphs
    types       a CastLike becomes a Cast
    types       operators and types without a definition are written by others (expansions.py)
    products    DFT, STFT and modes of Resize become products with constant matrices (linear_maps.py)
    casts       a Cast to the same type, or to a wider one and back, is removed
    selections  indices, masks and one-hot codes become comparisons, choices and moves (selections.py)
    logic       a Where of float32 reads its condition as float32 (logic.py)
    batch       the first axis of inputs, outputs, Reshapes and Resizes takes any number of vectors

A model that is refused in this form gets a new axis of vectors (vector_axis.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx.helper
import onnx.numpy_helper

from harness import operators
from harness.core.errors import RequestError
from harness.model.analysis.folding import fold
from harness.model.analysis.propagation import Propagation, propagate
from harness.model.graph import decode, opsets_of, parse, read_file
from harness.model.importer import (
    batches,
    branches,
    casts,
    changes,
    classic,
    expansions,
    functions,
    inputs,
    layouts,
    linear_maps,
    logic,
    opsets,
    sampling,
    selections,
    vector_axis,
)
from harness.model.importer.external_data import load_data
from harness.model.importer.graph import require_valid
from harness.model.importer.inputs import BATCH
from harness.model.importer.replacement import has_rule
from harness.model.network import Network
from harness.model.onnx_runtime.agreement import is_run, require_near, require_same
from harness.model.onnx_runtime.sessions import Stored
from harness.model.transforms.edit import (
    declare_functions,
    free_initializers,
    tidy,
)
from harness.operators.node import NEWEST_OPSET, domain_of

SHOWN = 6  # names in a note
QUANTISERS = ("DequantizeLinear", "QuantizeLinear")
SUMS = {"ReduceSum"}
"""Operators of constants whose order of additions ONNX leaves open."""


@dataclass(eq=False)
class Simplified:
    """The model, what was changed, and the model before, of `batch` vectors at once, in a file.

    `is_near` is true if sums have another order than in the model before.
    """

    model: onnx.ModelProto
    name: str
    source: Stored
    notes: tuple[str, ...] = ()
    batch: int = 1
    is_near: bool = False

    def check(self) -> None:
        """Compare the outputs with those of the file in ONNX Runtime; raise RequestError where they differ."""
        if self.notes:
            require_same(self.source, self.model, self.name, self.batch, is_near=self.is_near)

    def release(self) -> None:
        """Forget the model, which holds the weights."""
        self.model = onnx.ModelProto()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """State the steps that were done before the reason of a RequestError inside."""
        try:
            yield
        except RequestError as error:
            if not self.notes:
                raise
            steps = "".join(f"\n  {note}" for note in self.notes)
            raise RequestError(f"after these steps:{steps}\n{error.message}", error.hint) from error


def simplify(model: onnx.ModelProto, name: str, *, folds: bool = True) -> Simplified:
    """Return the model, which may be changed itself, in the form that `harness.model.parse` reads.

    Without `folds`, it has its functions inlined, its initializers are no inputs, and it is of opset 13 or later.
    Raises RequestError where nodes contradict each other, and for an opset that cannot be converted.
    """
    simplified = Simplified(model, name, Stored(model))
    del model
    _apply_steps(simplified, folds=folds)
    return simplified


def _apply_steps(simplified: Simplified, *, folds: bool, widens: bool = True) -> None:
    """Change the model; no caller holds it, because a step can make a new one."""
    notes: list[str] = []
    for step in STEPS:
        if widens or step is not _widen:
            notes += step(simplified)
    simplified.batch = _batch_size(simplified.model)
    if folds:
        propagation, fold_notes = _fold(simplified)
        notes += fold_notes
        if has_rule(simplified.model.graph, selections.RULES):
            notes += _select(simplified)
            propagation = _facts(simplified.model)
        if removed := casts.remove(simplified.model, propagation):
            notes.append(f"removed {_listed(removed)}, Cast to a type that its input has")
        notes += _write_products(simplified)
        notes += _free_batch(simplified, propagation)
        notes += logic.convert(simplified.model)
    if notes:
        tidy(simplified.model.graph)
        free_initializers(simplified.model)
    simplified.notes = tuple(notes)


def read(path: Path, *, folds: bool = True, widens: bool = True) -> tuple[Simplified, dict[str, str]]:
    """Return the simplified model of an ONNX file, and metadata that name the file and those with its data.

    Without `widens`, operators on float16 stay as they are.
    Raises RequestError if it cannot be read or is no valid ONNX, and as `simplify` does.
    """
    data = read_file(path)
    model, metadata = decode(data, path.stem), named(path, data)
    del data  # the model has a copy of it
    metadata |= load_data(model, path)
    require_valid(model, path.stem)
    simplified = Simplified(model, path.stem, Stored(model))
    del model
    _apply_steps(simplified, folds=folds, widens=widens)
    return simplified, metadata


def load(path: Path, refused: RequestError) -> Network:
    """Return the network of a file that `parse` has refused, with the steps in the metadata.

    If the simplified model is refused, too, a new axis of vectors comes in front.  Raises `refused` if no step changes
    the file, and otherwise the RequestError for the simplified model.
    """
    simplified, metadata = read(path)
    shapes = vector_axis.input_shapes(simplified.model, simplified.batch)
    known = {entry.key: entry.value for entry in simplified.model.metadata_props}
    onnx.helper.set_model_props(simplified.model, metadata | known)
    changes.state(simplified.model, simplified.notes)
    if simplified.notes or "source_data_sha256" in metadata:
        try:
            return _with_free_batch(simplified)
        except RequestError as error:
            refused = error
    try:
        model, note = vector_axis.add_axis(simplified.model, simplified.source, path.stem, shapes)
        changes.state(model, [note])
        return parse(model.SerializeToString(), path.stem)
    except RequestError:
        raise refused from None


def _with_free_batch(simplified: Simplified) -> Network:
    """Return the network of a simplified model, the first axis of which becomes that of vectors."""
    model = simplified.model
    inputs.free_batch(model)
    with simplified.explained():
        network = parse(model.SerializeToString(), simplified.name)
        simplified.check()
    return network


def named(path: Path, data: bytes) -> dict[str, str]:
    """Return metadata that name the file with this content."""
    return {"source_file": json.dumps(path.name), "source_sha256": json.dumps(hashlib.sha256(data).hexdigest())}


def _declare(simplified: Simplified) -> Iterator[str]:
    names = declare_functions(simplified.model)
    if names:
        simplified.source = Stored(simplified.model)  # ONNX Runtime cannot load the file
        yield (
            f"added ONNX functions that are derived from the definitions of {_listed(names)}: ONNX Runtime confirms "
            "their arithmetic, not their meaning"
        )


def _inline(simplified: Simplified) -> Iterator[str]:
    local = [(function.domain, function.name) for function in simplified.model.functions]
    unknown = [function for function in local if function not in operators.by_onnx_name()]
    if unknown:
        simplified.model = functions.inline(simplified.model, unknown, simplified.name)
        yield f"inlined the local functions {_listed([name for _, name in unknown])}"


def _replace(simplified: Simplified) -> Iterator[str]:
    """Put functions in the place of operators, which ONNX Runtime need not have."""
    simplified.model, names = functions.expand(simplified.model, simplified.name)
    if names:
        batch = _batch_size(simplified.model)
        if is_run(simplified.source, batch):
            require_near(simplified.source, simplified.model, simplified.name, batch)
        simplified.source = Stored(simplified.model)
        yield f"the functions of {_listed(names)} are in their place"


def _remove_listed(simplified: Simplified) -> Iterator[str]:
    model = simplified.model
    constants = {tensor.name for tensor in model.graph.initializer}
    listed = [value for value in model.graph.input if value.name in constants]
    if not listed:
        return
    for value in listed:
        model.graph.input.remove(value)
    free_initializers(model)
    yield f"{len(listed)} initializers that were also inputs are constants now"


def _convert(simplified: Simplified) -> Iterator[str]:
    is_old = opsets_of(simplified.model).get("", NEWEST_OPSET) < opsets.NUMPY_OPSET
    result = opsets.converted(simplified.model, simplified.name)
    if result is None:
        return
    simplified.model, note = result
    if is_old and not is_run(simplified.source, _batch_size(simplified.model)):
        simplified.source = Stored(simplified.model)
        note += "; ONNX Runtime does not run the file, and confirms the steps after this one only"
    yield note


def _lower(simplified: Simplified) -> Iterator[str]:
    notes = [*opsets.lower(simplified.model), *layouts.lower(simplified.model)]
    if notes:
        simplified.source = Stored(simplified.model)  # ONNX Runtime cannot load the file
    yield from notes


def _expand(simplified: Simplified) -> Iterator[str]:
    before = simplified.source
    notes = classic.expand(simplified.model)
    if notes:
        declare_functions(simplified.model)
        require_near(before, simplified.model, simplified.name, _batch_size(simplified.model))
        simplified.source = Stored(simplified.model)
    yield from notes


def _widen(simplified: Simplified) -> Iterator[str]:
    """Write nodes by others; ONNX Runtime computes the file only where it has all operators in all types."""
    names = expansions.expand(simplified.model, opsets_of(simplified.model).get("", NEWEST_OPSET))
    if not names:
        return
    yield f"wrote {_listed(names)} by nodes of other operators or types, of which ONNX says the same"
    simplified.is_near |= not expansions.EXACT.issuperset(names)
    if not is_run(simplified.source, _batch_size(simplified.model)):
        simplified.source = Stored(simplified.model)


STEPS: tuple[Callable[[Simplified], Iterator[str]], ...]
STEPS = (_inline, _replace, _lower, _declare, _remove_listed, _convert, _expand, _widen)


def _batch_size(model: onnx.ModelProto) -> int:
    """Return the first size of the first input, 1 if it is free; negative sizes become free."""
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_value < 0:
                size.dim_param = f"{BATCH}_{value.name}"
    shapes = [value.type.tensor_type.shape.dim for value in model.graph.input]
    return next((shape[0].dim_value or 1 for shape in shapes if len(shape)), 1)


def _select(simplified: Simplified) -> list[str]:
    """Write operators with indices, masks and samples by others."""
    replaced = selections.convert(simplified.model, _facts(simplified.model))
    simplified.is_near |= not sampling.RULES.keys().isdisjoint(replaced)
    return [f"{_listed(replaced)} became comparisons, choices and moves of values"] if replaced else []


def _fold(simplified: Simplified) -> tuple[Propagation | None, list[str]]:
    """Fold until no control flow is left that depends on no data; return the facts, None where nothing needs them.

    Each CastLike becomes a Cast.
    """
    removed: dict[str, None] = {}
    casts_to_types = 0
    propagation: Propagation | None = None
    while _is_foldable(simplified.model.graph) or branches.has_control_flow(simplified.model.graph):
        propagation = _facts(simplified.model)
        _require_consistent(propagation, simplified.name)
        count = casts.state_types(simplified.model, propagation)
        casts_to_types += count
        for operator in _constant_nodes(propagation):
            removed.setdefault(operator)
        before = simplified.model.graph
        shapes = {value.name: _first_size(value) for value in (*before.input, *before.output)}
        del before  # it holds the weights
        simplified.model = fold(simplified.model, propagation, "sinks")[0]
        graph = simplified.model.graph
        for value in (*graph.input, *graph.output):
            for size in value.type.tensor_type.shape.dim[:1]:
                size.CopyFrom(shapes[value.name])
        replaced = branches.inline_branches(graph, propagation)
        if not (replaced or count):
            break
        removed |= dict.fromkeys(replaced)
    simplified.is_near |= not SUMS.isdisjoint(removed)
    names = [operator for operator in removed if operator != "Constant"]
    notes = [f"{casts_to_types} CastLike are Cast to a type that is known"] if casts_to_types else []
    notes += [f"computed what depends on shapes and constants only: {_listed(names)}"] if names else []
    if not any(node.op_type in ("Cast", "Reshape", "Resize") for node in simplified.model.graph.node):
        return None, notes
    propagation = None  # the facts before, which have values of constants
    propagation = _facts(simplified.model)
    return (None if propagation.contradictions else propagation), notes  # another reader names what is wrong


def _is_foldable(graph: onnx.GraphProto) -> bool:
    """Return whether a node reads constants only, a shape, or is a constant of another form than a tensor."""
    known = {tensor.name for tensor in graph.initializer}
    for node in graph.node:
        if domain_of(node) or node.op_type in QUANTISERS:
            continue
        if node.op_type in ("Shape", "Size", "Constant", "CastLike") or all(
            tensor in known for tensor in node.input if tensor
        ):
            return True
    return False


def _facts(model: onnx.ModelProto) -> Propagation:
    """Return the facts for one vector; stated shapes of outputs do not count, which other tools leave behind."""
    stated = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in model.graph.output]
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    inputs_of_vectors = [value for value in model.graph.input if value.type.tensor_type.shape.dim]
    free = [value.name for value in inputs_of_vectors if not _first_size(value).HasField("dim_value")]
    propagation = propagate(model, [(tensor, "shape", ([1], False)) for tensor in free])
    del model.graph.output[:]
    model.graph.output.extend(stated)
    return propagation


def _require_consistent(propagation: Propagation, name: str) -> None:
    """Refuse shapes and types that no tensor has."""
    if propagation.contradictions:
        error = propagation.contradictions[0]
        raise RequestError(
            f"model {name!r}: node {error.node!r}: {error.problem} ({error.second.rule}"
            + (f"; {error.first})" if error.first else ")"),
            "export it again, with shapes that fit each other",
        )


def _first_size(value: onnx.ValueInfoProto) -> onnx.TensorShapeProto.Dimension:
    sizes = value.type.tensor_type.shape.dim
    size = onnx.TensorShapeProto.Dimension()
    if len(sizes):
        size.CopyFrom(sizes[0])
    return size


def _constant_nodes(propagation: Propagation) -> Iterator[str]:
    """Yield the operators of the nodes whose outputs have known values."""
    for node in propagation.nodes.values():
        if any(node.output) and all(
            propagation.facts.of(tensor).concrete is not None for tensor in node.output if tensor
        ):
            yield node.op_type


def _free_batch(simplified: Simplified, propagation: Propagation | None) -> list[str]:
    """Make the first axis, of `batch` vectors in the file, that of any number of vectors, also in Reshapes.

    A batch above 1 stays if ONNX Runtime then computes other values for single vectors than for all of them.
    """
    graph, batch = simplified.model.graph, simplified.batch
    before = Stored(simplified.model) if batch > 1 else None
    freeing = (batches.frees_reshape, batches.frees_resize)
    reshaped = [
        node.name or node.output[0]
        for node in graph.node
        if propagation and any(frees(simplified.model, node, propagation, batch) for frees in freeing)
    ]
    if before is None:
        return [f"{_listed(reshaped)}: a first size of 1 is the number of vectors"] if reshaped else []
    for value in (*graph.input, *graph.output):
        for size in value.type.tensor_type.shape.dim[:1]:
            size.dim_param = BATCH
    try:
        require_same(before, simplified.model, simplified.name, batch)
    except RequestError:
        simplified.model = onnx.load(before.path)
        return []
    return [f"the first axis, {batch} in the file, is the number of vectors"]


def _write_products(simplified: Simplified) -> tuple[str, ...]:
    """Write linear operators as products; where ONNX Runtime deviates, it confirms only the steps that follow."""
    expanded = linear_maps.expand(simplified.model, simplified.name)
    simplified.is_near |= bool(expanded.notes)
    if expanded.deviates:
        simplified.source = Stored(simplified.model)
    return expanded.notes


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more
