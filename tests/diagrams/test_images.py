import shutil

import graphviz
import pytest

from turnchart.diagrams.images import ImageError, ImageFormat, image
from turnchart.diagrams.overlay import Overlay
from turnchart.diagrams.state import state_diagram
from turnchart.machine.table import LIFECYCLE

has_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")


ROWS = [(row.source, row.target) for row in LIFECYCLE.rows]


@has_dot
@pytest.mark.parametrize(("detail", "edges"), [(False, len(set(ROWS))), (True, len(ROWS))])
def test_dot_reads_what_is_written(detail: bool, edges: int) -> None:
    svg = image(state_diagram(format="dot", detail=detail)).decode()
    assert svg.count('class="node"') == 9
    assert svg.count('class="edge"') == 1 + edges


@has_dot
@pytest.mark.parametrize("detail", [False, True])
def test_dot_reads_nasty_names(nasty: Overlay, detail: bool) -> None:
    svg = image(state_diagram(nasty, "dot", detail)).decode()
    assert svg.count('class="node"') == 9
    assert "back\\slash" in svg


@has_dot
@pytest.mark.parametrize(("format", "starts"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_the_formats(format: ImageFormat, starts: bytes) -> None:
    assert image("digraph { a -> b }", format).startswith(starts)


@has_dot
def test_text_that_is_no_dot_is_refused() -> None:
    with pytest.raises(ImageError, match="`dot` could not draw the picture"):
        image("digraph {")


def test_without_the_program_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_given: object, **_named: object) -> bytes:
        raise graphviz.ExecutableNotFound(["dot"])

    monkeypatch.setattr(graphviz.Source, "pipe", missing)
    with pytest.raises(ImageError, match=r"install the package `graphviz` \(apt-get install graphviz"):
        image("digraph {}")
