"""Semantics of the texts of a network and of its items: Petri nets, by the paper's two translations.

Source: Gauffriau, De Albuquerque Silva, Pagetti, ERTS 2024 (see graphs.py), sections II.D and IV.C.

Translation 1.  Every variable is a place, every operation a transition.  A token in a place: the variable is available
for one use.  Inputs and parameters initially have one token per use; an operation takes a token for each of its uses
and puts one token for each use of its output.

Translation 2.  Each item is translated so, in its own colour, and places of the same name are one.  `variablesync` is
no place and `get_var` no transition: a reader takes tokens of its own colour from the writer's place.  `send_var` is
the transition `sync`: it takes one token of the writer's colour from there and puts back, for
each reader, one token of the reader's colour per use.

Where the paper says nothing:

- To be an output of the network is one more use, so that each final place holds one token at the end, whether or not
  operations read it too, and however many outputs there are.  A tensor without users gets no token.
- An operation that reads a variable twice takes two tokens; so does, for the same reason, a list that names it twice.
- An item may send what it got: the place is still that of the item that computed it.
- The arcs alone let an operation without a parameter of its own fire twice, with the tokens that are there for others:
  in `o2 = relu(o1); o3 = add(o1, o2)` two firings of relu leave none for add, and the net is stuck, against the paper's
  property 1.  A send of what its own item reads too is the same.  Such a transition, and no other, takes one token
  besides from a place `once(its name)` that begins with one: within an inference every instruction is executed once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.core.errors import RequestError
from harness.plan.items.graphs import External, Get, Graph, ItemGraph, Operation, Send, Variable
from harness.plan.petri.net import Net, Tokens, Transition
from harness.plan.petri.structure import repeatable


def translate(graph: Graph) -> Net:
    """Return translation 1: the net of a whole network, without colours."""
    return _with_permits(_Union(graph.name, {"": graph}).net())


def translate_items(items: Sequence[ItemGraph], name: str = "items") -> Net:
    """Return translation 2: the coloured net of several items; colours are the items' names.

    Descriptions with mistakes have a net too, in which something is stuck, left over, or in conflict: see checks.py.
    RequestError if two items have one name.
    """
    return _with_permits(_Union(name, by_item(items)).net())


def by_item(items: Sequence[ItemGraph]) -> dict[str, ItemGraph]:
    """Return the items by name; raise RequestError if two have the same."""
    for name, count in Counter(item.item for item in items).items():
        if count > 1:
            raise RequestError(f"item {name} is described {count} times", "one graphitem for each item")
    return {item.item: item for item in items}


def permit(name: str) -> str:
    """Return the place that lets the transition `name` fire once; not a name that a variable can have."""
    return f"once({name})"


def fixed_places(graphs: Sequence[Graph]) -> frozenset[str]:
    """Return the places of a net of `graphs` that hold no tensor of an inference: parameters and permits."""
    instructions = [instruction for graph in graphs for instruction in graph.instructions]
    parameters = (each.output for each in instructions if isinstance(each, Variable))
    sends = (each.shared for each in instructions if isinstance(each, Send))
    operations = (each.output for each in instructions if isinstance(each, Operation))
    return frozenset((*parameters, *map(permit, (*operations, *sends))))


def final_outputs(graph: Graph) -> tuple[str, ...]:
    """Return the outputs of `graph` that are the network's: those that are no shared variables."""
    shared = {each.name for each in graph.shared} if isinstance(graph, ItemGraph) else set()
    return tuple(name for name in graph.outputs if name not in shared)


class Origins:
    """The item and tensor that a name denotes: received ones belong to the item that computed or declared them."""

    def __init__(self, graphs: Mapping[str, Graph]) -> None:
        instructions = [(item, each) for item, graph in graphs.items() for each in graph.instructions]
        self.declared = {
            (item, each.output): each for item, each in instructions if isinstance(each, External | Variable)
        }
        self.gets = {(item, each.output): each for item, each in instructions if isinstance(each, Get)}
        self.sent = {(item, each.shared): each.data for item, each in instructions if isinstance(each, Send)}

    def origin(self, item: str, name: str) -> tuple[str, str]:
        """Return the item and name where the tensor `name` of `item` comes from; as given, where that leads nowhere."""
        here, seen = (item, name), set[tuple[str, str]]()
        while here in self.gets and here not in seen:
            seen.add(here)
            get = self.gets[here]
            if (get.source, get.shared) not in self.sent:
                break
            here = get.source, self.sent[get.source, get.shared]
        return here


class _Union:
    """The nets of several graphs, by colour, with places of the same name merged."""

    def __init__(self, name: str, graphs: Mapping[str, Graph]) -> None:
        self.name = name
        self.graphs = graphs
        self.origins = Origins(graphs)
        self.readers = defaultdict[tuple[str, str], list[tuple[str, str]]](list)
        for local, get in self.origins.gets.items():
            self.readers[get.source, get.shared].append(local)
        self.uses = Counter((colour, name) for colour, graph in graphs.items() for name in _uses(graph))

    def net(self) -> Net:
        transitions = tuple(
            self._operation(colour, each) if isinstance(each, Operation) else self._sync(colour, each)
            for colour, graph in self.graphs.items()
            for each in graph.instructions
            if isinstance(each, Operation | Send)
        )
        return Net(self.name, self._places(transitions), transitions, self._initial(), self._final())

    def _places(self, transitions: Sequence[Transition]) -> tuple[str, ...]:
        declared = (
            each.output
            for graph in self.graphs.values()
            for each in graph.instructions
            if isinstance(each, External | Variable | Operation)
        )
        # Last those that no instruction gives a value: a description with a mistake has them.
        read = (tokens.place for transition in transitions for tokens in transition.consumes)
        return tuple(dict.fromkeys((*declared, *read, *(tokens.place for tokens in self._final()))))

    def _operation(self, colour: str, operation: Operation) -> Transition:
        reads = Counter(self._place(colour, name) for name in operation.tensors)
        return Transition(
            name=operation.output,
            consumes=tuple(Tokens(place, colour, count) for place, count in reads.items()),
            produces=tuple(self._tokens(colour, operation.output)),
            colour=colour,
            label=operation.operation,
        )

    def _sync(self, colour: str, send: Send) -> Transition:
        """Return the transition of a send: tokens go to the items that it names and that get the tensor."""
        handed = (
            tokens
            for reader, name in self.readers[colour, send.shared]
            if reader in send.destinations
            for tokens in self._tokens(reader, name)
        )
        taken = Tokens(self._place(colour, send.data), colour)
        return Transition(send.shared, (taken,), tuple(handed), colour, "sync", sync=True)

    def _initial(self) -> tuple[Tokens, ...]:
        return tuple(
            tokens
            for colour, graph in self.graphs.items()
            for each in graph.instructions
            if isinstance(each, External | Variable)
            for tokens in self._tokens(colour, each.output)
        )

    def _final(self) -> tuple[Tokens, ...]:
        return tuple(
            Tokens(self._place(colour, name), colour)
            for colour, graph in self.graphs.items()
            for name in final_outputs(graph)
        )

    def _tokens(self, colour: str, name: str) -> Iterator[Tokens]:
        """Yield one token for every use of the tensor by the item of this colour."""
        if count := self.uses[colour, name]:
            yield Tokens(self._place(colour, name), colour, count)

    def _place(self, colour: str, name: str) -> str:
        return self.origins.origin(colour, name)[1]


def _uses(graph: Graph) -> Iterator[str]:
    """Yield every use that a graph makes of a tensor: by an operation, by a send, as an output of the network."""
    for each in graph.instructions:
        if isinstance(each, Operation):
            yield from each.tensors
        elif isinstance(each, Send):
            yield each.data
    yield from final_outputs(graph)


def _with_permits(net: Net) -> Net:
    """Return `net`, in which transitions that could fire twice need a permit."""
    twice = set(repeatable(net))
    permits = {index: Tokens(permit(t.name), t.colour) for index, t in enumerate(net.transitions) if index in twice}
    return replace(
        net,
        places=(*net.places, *dict.fromkeys(tokens.place for tokens in permits.values())),
        transitions=tuple(
            replace(t, consumes=(*t.consumes, permits[index])) if index in permits else t
            for index, t in enumerate(net.transitions)
        ),
        initial=(*net.initial, *permits.values()),
    )
