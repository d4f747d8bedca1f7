"""Checks that every crate in the plugin may be linked under the project's licences, and that each one is named.

The allowed licences are those of deny.toml; the crates are those of `cargo metadata` that end up in the plugin.
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def allowed_by(expression, allowed):
    """Whether an SPDX expression can be met: one side of each OR, both of each AND."""
    text = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ")
    words = re.sub(r"(\S+) WITH (\S+)", r"\1_WITH_\2", text).split()
    known = {name.replace(" WITH ", "_WITH_") for name in allowed}
    python = [{"AND": "and", "OR": "or", "(": "(", ")": ")"}.get(word, str(word in known)) for word in words]
    return bool(words) and eval(" ".join(python), {"__builtins__": {}})


def linked(metadata):
    """The packages of other people that are part of the plugin: normal dependencies, on this platform, less macros."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    macros = {p["id"] for p in metadata["packages"] if any("proc-macro" in target["kind"] for target in p["targets"])}
    root = next(p["id"] for p in metadata["packages"] if p["name"] == "ggml-et")
    found, todo = set(), [root]
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and dependency["pkg"] not in found | macros:
                found.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return [p for p in metadata["packages"] if p["id"] in found and p["source"] is not None]


def main():
    with open(ROOT / "deny.toml", "rb") as file:
        allowed = set(tomllib.load(file)["licenses"]["allow"])
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    notices = (ROOT / "THIRD-PARTY.md").read_text()
    wrong = []
    for package in metadata["packages"]:
        licence = package["license"] or ""
        if not allowed_by(licence, allowed):
            wrong.append(f"{package['name']}: licence '{licence}' is not allowed by deny.toml")
    for package in linked(metadata):
        if not re.search(rf"^\| {re.escape(package['name'])} \|", notices, re.MULTILINE):
            wrong.append(f"{package['name']} ({package['license']}) is linked into the plugin; name it in THIRD-PARTY.md")
    print(*wrong or [f"{len(metadata['packages'])} packages, all allowed and named"], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
