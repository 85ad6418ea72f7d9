"""A world for hooks: a folder, a clock that stands still, programs that are made up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnchart.machine.world import Finished


@dataclass
class StubWorld:
    """What ``points.World`` asks for.

    Attributes:
        programs: What a program gives back, by its name; one that is not here cannot be started.
        answers: What a model says, by its id; another repeats the question.
        ran: The programs that were run.
        told: The notices.
        injected: What was put into the inbox, with its source.
    """

    root: str
    time: float = 1_700_000_000.0
    programs: dict[str, Finished] = field(default_factory=dict[str, Finished])
    answers: dict[str, str] = field(default_factory=dict[str, str])
    ran: list[list[str]] = field(default_factory=list[list[str]])
    told: list[str] = field(default_factory=list[str])
    injected: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def now(self) -> float:
        return self.time

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str = "",
        timeout: float = 30,  # noqa: ASYNC109  # as the contract has it
        env: Mapping[str, str] | None = None,
        cwd: str = ".",
    ) -> Finished:
        self.ran.append(list(argv))
        if argv[0] not in self.programs:
            raise FileNotFoundError(argv[0])
        return self.programs[argv[0]]

    async def ask_model(self, model: str, prompt: str) -> str:
        return self.answers.get(model, f"{model}: {prompt}")

    def read(self, path: str) -> str:
        return (Path(self.root) / path).read_text("utf-8")

    def append(self, path: str, text: str) -> None:
        file = Path(self.root) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as out:
            out.write(text)

    def notice(self, text: str) -> None:
        self.told.append(text)

    def inject(self, text: str, source: str) -> None:
        self.injected.append((text, source))
