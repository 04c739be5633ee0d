"""A container file as stages of instructions."""

import json
import re
import shlex
from pathlib import Path

import msgspec


class Instruction(msgspec.Struct, frozen=True):
    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """The words of the exec form; the shell form fails."""
        return list(map(str, json.loads(self.text[self.text.index("[") :])))


class Stage(msgspec.Struct):
    image: str
    instructions: list[Instruction]

    def all(self, name: str) -> list[Instruction]:
        return [each for each in self.instructions if each.name == name]

    def one(self, name: str) -> Instruction:
        (found,) = self.all(name)
        return found

    @property
    def environment(self) -> dict[str, str]:
        words = [word for each in self.all("ENV") for word in shlex.split(each.text)]
        return dict(word.split("=", 1) for word in words)


def read(file: Path) -> list[Stage]:
    """The stages of a container file, in order."""
    lines = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
    stages: list[Stage] = []
    for line in re.sub(r"\\\n\s*", "", lines).splitlines():
        name, _, text = line.strip().partition(" ")
        if name == "FROM":
            stages.append(Stage(text, []))
        elif name:
            stages[-1].instructions.append(Instruction(name, text.strip()))
    return stages
