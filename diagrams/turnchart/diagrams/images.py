"""SVG and PNG out of DOT, through the program ``dot`` of Graphviz, which need not be there."""

from typing import Literal

from turnchart.machine.errors import TurnchartError

ImageFormat = Literal["svg", "png"]


class ImageError(TurnchartError):
    """A picture could not be made from its DOT text; the message says what is missing or wrong."""


def image(source: str, format: ImageFormat = "svg") -> bytes:
    """Return DOT text as an image.

    Raises:
        ImageError: If ``dot`` is not installed, or refuses the text.
    """
    import graphviz

    try:
        made: bytes = graphviz.Source(source).pipe(format=format)
    except graphviz.ExecutableNotFound:
        raise ImageError(
            f"{format} needs the program `dot` of Graphviz, which was not found on PATH: install the package"
            " `graphviz` (apt-get install graphviz, brew install graphviz, winget install graphviz),"
            " or take the formats mermaid or dot, which need no program"
        ) from None
    except graphviz.CalledProcessError as error:
        raise ImageError(f"`dot` could not draw the picture: {error}") from error
    return made
