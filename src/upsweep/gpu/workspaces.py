"""The memory in which blocks meet: a workspace for each stream, and for each graph."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from upsweep.gpu import driver

_lock = Lock()
NOWHERE = 0, 0, 0, 0
"""The same of a launch that meets nowhere."""


class Workspace:
    """Control words, arrival counters and nodes. Between launches the control words are as nodes.cuh leaves them; nodes are
    stale.
    """

    def __init__(self, arrivals: int, nodes: int, device: int, stream: int) -> None:
        self.arrivals_count, self.node_words = arrivals, nodes
        begin = 256 + -(-arrivals * 4 // 256) * 256
        self.memory = driver.Memory(begin + 8 * nodes, device, stream)
        self.control = self.memory.ptr
        self.arrivals = self.control + 256
        self.nodes = self.control + begin
        self.place = self.control, self.arrivals, self.nodes, nodes
        """The first parameters of a launch that meets here."""
        driver.fill_words(self.control, 0, (begin + 8 * nodes) // 4, stream)
        driver.fill_words(self.control + 8, 1, 1, stream)

    def holds(self, arrivals: int, nodes: int) -> bool:
        return self.arrivals_count >= arrivals and self.node_words >= nodes


def _grown(found: Workspace | None, arrivals: int, nodes: int, device: int, stream: int) -> Workspace:
    arrivals = max(arrivals, found.arrivals_count if found else 256)
    return Workspace(arrivals, max(nodes, found.node_words if found else 8192), device, stream)


# Workspaces that are kept: a process that makes streams without end must not keep memory for each.
_STREAMS = 64
_workspaces: OrderedDict[tuple[int, int], Workspace] = OrderedDict()


def workspace(arrivals: int, nodes: int, stream: int, device: int) -> Workspace:
    """A workspace with so many counters and words: that of a stream, as scans of one stream never overlap, and scans of two
    streams never meet."""
    # The default stream, 0, is never captured, nor closed.
    if stream and driver.capturing(stream):
        return _workspace_of_graph(arrivals, nodes, stream, device)
    key = (device, driver.stream_id(stream) if stream else 0)
    found = _workspaces.get(key)
    if found is not None and found.holds(arrivals, nodes):
        return found
    with _lock:
        made = _workspaces[key] = _grown(found, arrivals, nodes, device, stream)
        while len(_workspaces) > _STREAMS:
            _workspaces.popitem(last=False)
    return made


@dataclass
class Lent:
    """A workspace that a graph has for its whole life, and the recording of a stream whose scans share the workspace."""

    workspace: Workspace
    device: int
    loan: driver.Loan
    recording: tuple[int, int] = (0, 0)


_lent: list[Lent] = []


def _workspace_of_graph(arrivals: int, nodes: int, stream: int, device: int) -> Workspace:
    """The workspace of a graph. A graph may run on any stream, many times, though never beside itself: so a graph owns the
    workspace of its scans. Every launch leaves its workspace ready for the next, so that a graph need not clear it.
    """
    number, graph = driver.capture(stream)
    recording = number, stream
    with _lock:
        fitting = [x for x in _lent if x.device == device and x.workspace.holds(arrivals, nodes)]
        for lent in fitting:
            if lent.recording == recording:
                return lent.workspace
        lent = next((x for x in fitting if x.loan.take()), None)
        if lent is None:
            with driver.beside_capture():
                lent = Lent(_grown(None, arrivals, nodes, device, driver.OWN_STREAM), device, driver.Loan())
            lent.loan.take()
            _lent.append(lent)
        lent.recording = recording
        lent.loan.give(graph)
        return lent.workspace
