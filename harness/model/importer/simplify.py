"""Files as other tools write them -> the same networks in the form that the importers and `harness.model.parse` read.

Each step below changes the model in place and returns a note of what it changed.  ONNX Runtime without optimisations
then computes file and result for random inputs (`Simplified.check`).

    functions   local functions of operators that no layer reads are inlined, and those that ONNX states for operators
    domains     operators of ONNX Runtime become those of ONNX's own domain (contributed.py)
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
    dynamic     scales that follow from the data, and products of their codes, become operators on float32 (dynamic.py)
    products    DFT, STFT and modes of Resize become products with constant matrices (linear_maps.py)
    statistics  variances and softmax functions of other operators are written in a stable order (statistics.py)
    casts       a Cast to the same type, or to a wider one and back, is removed
    selections  indices, masks and one-hot codes become comparisons, choices and moves (selections.py)
    logic       a Where of float32 reads its condition as float32 (logic.py)
    outputs     constant outputs are those of each vector (constant_outputs.py)
    batch       the first axis of inputs, outputs, Reshapes and Resizes takes any number of vectors

A model that is refused in this form gets a new axis of vectors (vector_axis.py).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import onnx
import onnx.helper
import onnx.numpy_helper

from harness import operators
from harness.core.errors import RequestError
from harness.model.graph import decode, opsets_of, parse, read_file
from harness.model.importer import (
    arithmetic,
    batches,
    bounded,
    changes,
    classic,
    constant_outputs,
    constants,
    contributed,
    dynamic,
    expansions,
    functions,
    inputs,
    linear_maps,
    logic,
    opsets,
    regions,
    sampling,
    selections,
    statistics,
    vector_axis,
)
from harness.model.importer.external_data import load_data
from harness.model.importer.graph import require_valid
from harness.model.importer.replacement import has_rule
from harness.model.importer.simplification import Simplified, batch_size, listed
from harness.model.network import Network
from harness.model.onnx_runtime.agreement import is_run, require_near
from harness.model.onnx_runtime.sessions import Stored
from harness.model.transforms.edit import (
    declare_functions,
    free_initializers,
    tidy,
)
from harness.operators.node import NEWEST_OPSET


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
    simplified.batch = batch_size(simplified.model)
    if folds:
        for fold_step in FOLD_STEPS:
            notes += fold_step(simplified)
        simplified.propagation = None
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


def _unconfirmed(simplified: Simplified, note: str) -> str:
    """Compare the steps that follow with the present model, and return the note of a step with that restriction."""
    simplified.source = Stored(simplified.model)
    return f"{note}; ONNX Runtime does not run the file, and confirms the steps after this one only"


def _declare(simplified: Simplified) -> Iterator[str]:
    names = declare_functions(simplified.model)
    if names:
        simplified.source = Stored(simplified.model)  # ONNX Runtime cannot load the file
        yield (
            f"added ONNX functions that are derived from the definitions of {listed(names)}: ONNX Runtime confirms "
            "their arithmetic, not their meaning"
        )


def _inline(simplified: Simplified) -> Iterator[str]:
    local = [(function.domain, function.name) for function in simplified.model.functions]
    unknown = [function for function in local if function not in operators.by_onnx_name()]
    if unknown:
        simplified.model = functions.inline(simplified.model, unknown, simplified.name)
        yield f"inlined the local functions {listed([name for _, name in unknown])}"


def _write_contributed(simplified: Simplified) -> Iterator[str]:
    """Write operators of ONNX Runtime by ONNX's own, which have other orders of sums."""
    names = contributed.expand(simplified.model)
    if names:
        simplified.is_near = True
        yield f"wrote {listed(names)} of ONNX Runtime by operators of ONNX"


def _replace(simplified: Simplified) -> Iterator[str]:
    """Put functions in the place of operators, which ONNX Runtime need not have."""
    simplified.model, names = functions.expand(simplified.model, simplified.name)
    if names:
        batch, note = batch_size(simplified.model), f"the functions of {listed(names)} are in their place"
        if is_run(simplified.source, batch):
            require_near(simplified.source, simplified.model, simplified.name, batch)
            simplified.source = Stored(simplified.model)
        else:
            note = _unconfirmed(simplified, note)
        yield note


def _remove_listed(simplified: Simplified) -> Iterator[str]:
    model = simplified.model
    names = {tensor.name for tensor in model.graph.initializer}
    replaceable = [value for value in model.graph.input if value.name in names]
    if not replaceable:
        return
    for value in replaceable:
        model.graph.input.remove(value)
    free_initializers(model)
    yield f"{len(replaceable)} initializers that were also inputs are constants now"


def _convert(simplified: Simplified) -> Iterator[str]:
    is_old = opsets_of(simplified.model).get("", NEWEST_OPSET) < opsets.NUMPY_OPSET
    result = opsets.converted(simplified.model, simplified.name)
    if result is None:
        return
    simplified.model, note = result
    if is_old and not is_run(simplified.source, batch_size(simplified.model)):
        note = _unconfirmed(simplified, note)
    yield note


def _lower(simplified: Simplified) -> Iterator[str]:
    notes = opsets.lower(simplified.model)
    if notes:
        simplified.source = Stored(simplified.model)  # ONNX Runtime cannot load the file
    yield from notes


def _expand(simplified: Simplified) -> Iterator[str]:
    before = simplified.source
    notes = classic.expand(simplified.model)
    if notes:
        declare_functions(simplified.model)
        require_near(before, simplified.model, simplified.name, batch_size(simplified.model))
        simplified.source = Stored(simplified.model)
    yield from notes


def _widen(simplified: Simplified) -> Iterator[str]:
    """Write nodes by others; ONNX Runtime computes the file only where it has all operators in all types."""
    names = expansions.expand(simplified.model, opsets_of(simplified.model).get("", NEWEST_OPSET))
    if not names:
        return
    note = f"wrote {listed(names)} by nodes of other operators or types, of which ONNX says the same"
    simplified.is_near |= not expansions.EXACT.issuperset(names)
    if not is_run(simplified.source, batch_size(simplified.model)):
        note = _unconfirmed(simplified, note)
    yield note


STEPS: tuple[Callable[[Simplified], Iterator[str]], ...]
STEPS = (_inline, _write_contributed, _replace, _lower, _declare, _remove_listed, _convert, _expand, _widen)


def _select(simplified: Simplified) -> list[str]:
    """Write operators with indices, masks and samples by others."""
    if not has_rule(simplified.model.graph, selections.RULES):
        return []
    replaced = selections.convert(simplified.model, constants.facts_of(simplified.model))
    simplified.propagation = constants.facts_of(simplified.model)
    simplified.is_near |= not {*sampling.RULES, *arithmetic.RULES, *regions.RULES}.isdisjoint(replaced)
    chosen, rows = ([name for name in replaced if (name in bounded.RULES) == has_rows] for has_rows in (False, True))
    notes = [f"{listed(chosen)} became operators that harness computes"] if chosen else []
    if not regions.RULES.keys().isdisjoint(chosen) and not is_run(simplified.source, simplified.batch):
        notes = [_unconfirmed(simplified, note) for note in notes]
    return notes + (
        [f"{listed(rows)}: its rows have a bound, and those that ONNX does not give are -1"] if rows else []
    )


def _write_dynamic(simplified: Simplified) -> list[str]:
    """Write quantisers whose scale follows from the data, and products of their codes, by operators on float32."""
    names = dynamic.expand(simplified.model)
    return [f"{listed(names)} became operators on float32, for each vector alone"] if names else []


def _write_products(simplified: Simplified) -> tuple[str, ...]:
    """Write linear operators as products; where ONNX Runtime deviates, it confirms only the steps that follow."""
    expanded = linear_maps.expand(simplified.model, simplified.name)
    simplified.is_near |= bool(expanded.notes)
    if expanded.deviates:
        simplified.source = Stored(simplified.model)
    return expanded.notes


def _write_statistics(simplified: Simplified) -> list[str]:
    """Write variances and softmax functions of other operators in an order that gives no NaN."""
    notes = statistics.convert(simplified.model)
    simplified.is_near |= bool(notes)
    return notes


FOLD_STEPS: tuple[Callable[[Simplified], Sequence[str]], ...] = (
    constants.compute_constants,
    _write_dynamic,
    _write_statistics,
    _select,
    constants.remove,
    _write_products,
    lambda simplified: constant_outputs.convert(simplified.model, simplified.batch),
    batches.free_first_axis,
    lambda simplified: logic.convert(simplified.model),
)
"""The steps after `STEPS`, without which weights and shapes stay as they are."""
