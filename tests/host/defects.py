"""Defects that are put into copies of the kernels, and what strict mode has to say about each: tests/defects/list.toml.

Usage: defects.py   prints the table of docs/emulator.md
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "defects"


@dataclass(frozen=True)
class Defect:
    """One defect. The fields are described in list.toml."""

    name: str
    what: str
    file: str
    old: str
    new: str
    case: str
    kind: str
    at: str = ""
    by: str = ""
    shires: int = 1
    quick: bool = False

    def apply(self, text):
        """The file with the defect. The place must be there exactly once: this is what tells that the list is outdated."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"defect '{self.name}': its text occurs {count} times in kernels/{self.file}, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Report:
    """A line of strict mode's: the kind, and the places of who did it and of the other side, outermost last."""

    kind: str
    at: tuple
    by: tuple
    text: str


def load():
    """All defects."""
    return [Defect(**entry) for entry in tomllib.loads((HERE / "list.toml").read_text())["defect"]]


def reports(output):
    """What strict mode has reported."""
    found = []
    for line in output.splitlines():
        match = re.match(r"ggml-et: ([\w ]+): hart \d+ (.*)", line)
        if match:
            who, _, rest = match[2].partition(": ")
            found.append(Report(match[1], places(who), places(rest), line))
        elif "deadlock" in line:
            found.append(Report("deadlock", (), places(line), line))
    return found


def places(text):
    """File and line of each frame that a text names."""
    return tuple((file, int(line)) for file, line in re.findall(r"at ([\w.]+\.[chS]):(\d+)", text))


def names(folder, frames, words):
    """Whether one of the places is a line of source that contains the words."""
    if not words:
        return True
    for file, line in frames:
        for path in Path(folder).glob(f"kernels/*/{file}"):
            lines = path.read_text().splitlines()
            if line <= len(lines) and words in lines[line - 1]:
                return True
    return False


def catches(report, defect, folder):
    """Whether a report tells of the defect: its kind, and the lines that it must name."""
    return report.kind == defect.kind and names(folder, report.at, defect.at) and names(folder, report.by, defect.by)


def table(defects):
    """Lines of Markdown."""
    yield "| injected | file | strict mode reports | at the line |"
    yield "|---|---|---|---|"
    for d in defects:
        lines = ", ".join(shown(code) for code in (d.at, d.by) if code)
        yield f"| {d.what} | {Path(d.file).name} | {d.kind} | {lines} |"


def shown(code):
    """Code in a cell of a table: its beginning, if it is long."""
    if len(code) > 60:
        code = code[:59].rstrip() + "…"
    return "`" + code.replace("|", "\\|") + "`"


if __name__ == "__main__":
    print("\n".join(table(load())))
