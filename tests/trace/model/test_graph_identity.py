"""Identity of a replay and a capture: thresholds just below and above, and each mutation."""

import pytest

from hta_widgets.trace.model.captures import Node, graph_identity


def _kernels(count: int) -> list[Node]:
    return [Node("kernel", f"k{number % 7}") for number in range(count)]


@pytest.mark.parametrize(
    ("nodes", "lost", "says"),
    [(49, 1, "refused"), (50, 1, "prefix"), (50, 2, "refused"), (399, 2, "refused"),
     (400, 2, "prefix"), (400, 3, "refused"), (400, 0, "names"), (4, 0, "names")],
)  # fmt: skip
def test_lost_nodes(nodes, lost, says):
    assert graph_identity(_kernels(nodes), _kernels(nodes - lost)) == says


@pytest.mark.parametrize("at", range(58))
def test_a_mutated_capture_is_refused(at):
    replay = _kernels(60)
    doubled = [*replay[: at + 1], *replay[at:]]
    dropped = [*replay[:at], *replay[at + 1 :]]
    renamed = [*replay[:at], Node("kernel", "other"), *replay[at + 1 :]]
    swapped = [*replay[:at], replay[at + 1], replay[at], *replay[at + 2 :]]
    for capture in (doubled, dropped, renamed, swapped):
        assert graph_identity(capture, replay) == "refused"


@pytest.mark.parametrize(("nodes", "says"), [(19, "refused"), (20, "order")])
def test_no_names(nodes, says):
    assert graph_identity([Node("kernel")] * nodes, _kernels(nodes)) == says


def test_a_fill_may_run_as_a_kernel():
    capture = [Node("kernel", "a"), Node("fill")]
    for seen in (Node("fill"), Node("kernel", "__amd_rocclr_fillBufferAligned")):
        assert graph_identity(capture, [Node("kernel", "a"), seen]) == "names"
    assert graph_identity(capture, [Node("kernel", "a"), Node("kernel", "b")]) == "refused"
