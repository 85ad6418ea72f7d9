"""How a command says what it takes, and what is wrong with what it was given."""

from typing import Any

from typer import BadParameter
from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose usage names its arguments as its help does, and whose errors are for people."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line; what has to be given stands there without braces."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the command line apart.

        Raises:
            BadParameter: If a value does not fit.
        """
        try:
            return super().parse_args(ctx, args)
        except BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise
