#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doxygen_filter.py HEADER: prints the header with its comments in Doxygen's syntax. A plain comment describes
the declaration after it or, if it follows code on its line, the declaration before it. Indented lines in a comment stay
as they are."""
import re
import sys
from pathlib import Path

HEAD = re.compile(r"\A/\* SPDX[^\n]*\n#ifndef (\w+)\n#define \w+\n(?:/\*)?")


def escaped(line: str) -> str:
    """Escapes everything outside `code` that Doxygen would take for a command or HTML."""
    parts = line.split("`")
    parts[::2] = [re.sub(r"([\\@<>#&])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def body(text: str) -> str:
    """Returns the text of a comment; indented lines, such as options and tables, are kept as they are."""
    lines = [re.sub(r"^\s*\* ?", "", line) for line in text.split("\n")]
    out: list[str] = []
    listed: list[str] = []

    def end_list() -> None:
        if not listed:
            return
        indent = min(len(line) - len(line.lstrip()) for line in listed if line.strip())
        out.append("@verbatim\n" + "\n".join(line[indent:] for line in listed) + "\n@endverbatim")
        listed.clear()

    for number, line in enumerate(lines):
        if number and line.startswith("  ") and line.strip():
            listed.append(line)
        else:
            end_list()
            out.append(escaped(line))
    end_list()
    return "\n".join(out)


def of_c(text: str, name: str) -> str:
    def comment(match: re.Match[str]) -> str:
        before, inside = match.group(1), match.group(2)
        if inside.strip().startswith("----"):
            return match.group(0)
        if before.strip() and not before.rstrip().endswith("{"):
            return f"{before}/**< {escaped(' '.join(re.sub(r'^ *', '', line) for line in inside.split(chr(10))).strip())} */"
        return f"{before}/** {body(inside.strip(' '))} */"

    first = HEAD.match(text)
    assert first, f"{name}: expected the head of an installed header"
    rest = text[first.end() - 2 :] if first.group(0).endswith("/*") else text[first.end() :]
    whole = rest.startswith("/*")  # the first comment describes the file
    rest = re.sub(r"(?m)^([^\n]*?)/\*(.*?)\*/", comment, rest, flags=re.DOTALL | re.MULTILINE)
    if whole:
        rest = rest.replace("/** ", f"/** @file {name}\n", 1)
    else:
        rest = f"/** @file {name} */\n" + rest
    return f"#ifndef {first.group(1)}\n#define {first.group(1)}\n" + rest


def of_cpp(text: str, name: str) -> str:
    lines = text.split("\n")
    out = []
    for line in lines:
        found = re.match(r"(.*?)///(<?)(.*)$", line)
        if found:
            command = re.match(r"\s*@(param|return|throws|pre)\b", found.group(3))
            text_of_line = found.group(3) if command else escaped(found.group(3))
            out.append(f"{found.group(1)}///{found.group(2)}{text_of_line}")
        else:
            out.append(line)
    head = re.search(r"#pragma once\n((?:// [^\n]*\n)+)", text)
    description = " ".join(line[3:] for line in head.group(1).splitlines()) if head else ""
    return f"/** @file {name}\n{escaped(description)} */\n" + "\n".join(out)


def main() -> None:
    path = Path(sys.argv[1])
    text = path.read_text()
    print((of_c if path.suffix == ".h" else of_cpp)(text, "tremula/" + path.name), end="")


if __name__ == "__main__":
    main()
