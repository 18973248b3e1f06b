#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""site.py [FOLDER]: builds the manual in FOLDER/site (build/docs/site) from docs/ and the pages next to the code,
without network access. Exits with 1 if MkDocs or Doxygen warns, or if a link leads nowhere."""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import xml.etree.ElementTree
from pathlib import Path

import pygments.formatters

sys.path.insert(0, str(Path(__file__).parent))
import blocks  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
OUT = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "docs"
PAGES, SITE = OUT / "pages", OUT / "site"
HEADERS = ("client/include/tremula/", "coupling/weights/include/tremula/")
LINK = re.compile(r"\]\(([^()\s]+)\)")


class Broken(Exception):
    pass


def sources() -> dict[str, str]:
    """Returns the path in the site of every page of the source tree."""
    found = {}
    for path in sorted(ROOT.rglob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[0] in ("build", "demo") or "/." in "/" + name:
            continue
        found[name] = name.removeprefix("docs/") if name.startswith("docs/") else "rooms/" + name
    return found


class Stage:
    """Copies pages, and the files they link to, into the folder that MkDocs reads."""

    def __init__(self) -> None:
        self.places = sources()
        files = xml.etree.ElementTree.parse(OUT / "api.tag").getroot().iter("compound")
        self.interface = {entry.findtext("name", ""): entry.findtext("filename", "") for entry in files if entry.get("kind") == "file"}

    def place_of(self, target: str, page: str) -> str:
        """Returns the path in the site of a file or folder of the source tree."""
        path = ROOT / target
        if path.is_dir():
            if (path / "README.md").exists():
                return self.places[os.path.join(target, "README.md")]
            return self.folder(target)
        if not path.exists():
            raise Broken(f"{page}: links to {target}, which does not exist")
        if target in self.places:
            return self.places[target]
        if target.startswith(HEADERS):
            page = self.interface[path.name]
            return "api/" + page + ("" if page.endswith(".html") else ".html")
        is_picture = path.suffix in (".svg", ".png")
        place = ("pictures/" if is_picture else "files/") + target + ("" if is_picture else ".txt")
        (PAGES / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, PAGES / place)
        return place

    def folder(self, target: str) -> str:
        place = f"files/{target.rstrip('/')}/index.md"
        lines = [f"# {target.rstrip('/')}", ""]
        for path in sorted((ROOT / target).iterdir()):
            if path.is_file():
                inner = self.place_of(path.relative_to(ROOT).as_posix(), place)
                lines.append(f"* [{path.name}]({os.path.relpath(inner, Path(place).parent)})")
        (PAGES / place).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / place).write_text("\n".join(lines) + "\n")
        return place

    def stage(self, name: str) -> None:
        place = self.places[name]

        def linked(match: re.Match[str]) -> str:
            target, mark, fragment = match.group(1).partition("#")
            if target.startswith(("http:", "https:")) or not target:
                return match.group(0)
            inner = os.path.normpath(os.path.join(os.path.dirname(name), target))
            return f"]({os.path.relpath(self.place_of(inner, name), os.path.dirname(place) or '.')}{mark}{fragment})"

        lines: list[str] = []
        opened: blocks.Fence | None = None
        for is_code, line in blocks.lines(ROOT / name):
            at = blocks.fence(line) if is_code else None
            if at and opened is None:
                opened = at
                lines += ["", f"```{at.language or 'text'}"]
            elif at and opened is not None:
                lines.append("```")
                if opened.words.startswith("not run: "):
                    lines += ["", f"N{opened.words[1:]}.", "{.not-run}", ""]
                opened = None
            else:
                lines.append(line if is_code else LINK.sub(linked, line))
        (PAGES / place).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / place).write_text("\n".join(lines) + "\n")


class Page(html.parser.HTMLParser):
    """Links, anchors and sections of one page of the site."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.sections: list[list[str]] = []  # anchor, heading, text
        self.in_main = self.in_heading = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        for name in ("id", "name"):
            if name in values:
                self.anchors.add(values[name])
        if "href" in values:
            (self.links if tag in ("a", "area") else self.loads).append(values["href"])
        if "src" in values:
            self.loads.append(values["src"])
        if tag == "main":
            self.in_main = True
        if self.in_main and tag in ("h1", "h2", "h3"):
            self.sections.append([values.get("id", ""), "", ""])
            self.in_heading = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "main":
            self.in_main = False
        if tag in ("h1", "h2", "h3"):
            self.in_heading = False

    def handle_data(self, data: str) -> None:
        if self.in_main and self.sections:
            self.sections[-1][1 if self.in_heading else 2] += data


def finish(path: Path, names: dict[str, str]) -> None:
    """Makes wide tables scroll on their own, and links names of the interface to Doxygen's pages."""
    text = path.read_text()
    root = os.path.relpath(SITE, path.parent)

    def named(match: re.Match[str]) -> str:
        place = names.get(match.group(1))
        return f'<a href="{root}/api/{place}">{match.group(0)}</a>' if place else match.group(0)

    head, main, tail = re.split(r"(<main>.*</main>)", text, maxsplit=1, flags=re.DOTALL)
    main = main.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
    main = re.sub(r"(?<!\">)<code>(tremula_\w+)</code>", named, main)
    path.write_text(head + main + tail)


def mend(path: Path) -> None:
    """Removes links to a list of nested classes that is missing: Doxygen 1.9.4 links it even if all are private."""
    text = path.read_text()
    if 'id="nested-classes"' not in text and 'name="nested-classes"' not in text:
        path.write_text(re.sub(r'<a href="#nested-classes">[^<]*</a>(&#160;\||\s*\|)?', "", text))


def interface_names() -> dict[str, str]:
    names = {}
    for member in xml.etree.ElementTree.parse(OUT / "api.tag").getroot().iter("member"):
        name = member.findtext("name", "")
        if name.startswith("tremula_"):
            names.setdefault(name, f"{member.findtext('anchorfile')}#{member.findtext('anchor')}")
    return names


def check(pages: dict[Path, Page]) -> list[str]:
    """Returns the faults of all links: each must lead to a file of the site and, if it names an anchor, to an anchor in
    that file. Nothing may be loaded from elsewhere."""
    wrong = []
    for path, page in pages.items():
        for link in page.links + page.loads:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("http", "https") and link in page.links:
                continue
            if parts.scheme == "javascript":
                continue
            if parts.scheme or parts.netloc:
                wrong.append(f"{path.relative_to(SITE)} loads {link}")
                continue
            target = path if not parts.path else (path.parent / urllib.parse.unquote(parts.path)).resolve()
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                wrong.append(f"{path.relative_to(SITE)} links to {link}, which does not exist")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{path.relative_to(SITE)} links to {link}, which has no such anchor")
    return wrong


def search_index(pages: dict[Path, Page]) -> str:
    entries = []
    for path, page in sorted(pages.items()):
        name = path.relative_to(SITE).as_posix()
        if name.startswith(("api/", "files/")) or not page.sections:
            continue
        title = page.sections[0][1].strip()
        for anchor, heading, text in page.sections:
            head = "" if heading.strip() == title else heading.strip()
            entries.append([f"{name}#{anchor}" if head else name, title, head, " ".join(text.split())])
    return "const tremula_pages = " + json.dumps(entries, ensure_ascii=False, separators=(",", ":")) + ";\n"


def run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0 or re.search(r"(?m)^WARNING|: (warning|error):", done.stdout):
        raise Broken(done.stdout.strip() or f"{command[0]} ended with {done.returncode}")


def build() -> int:
    for folder in (PAGES, SITE):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    settings = (ROOT / "docs/Doxyfile").read_text().replace("build/docs", str(OUT))
    (OUT / "Doxyfile").write_text(settings)
    run(["doxygen", str(OUT / "Doxyfile")])
    stage = Stage()
    for name in stage.places:
        stage.stage(name)
    (PAGES / "code.css").write_text(pygments.formatters.HtmlFormatter(style="xcode").get_style_defs(".codehilite"))
    version = re.search(r"project\(tremula\s+VERSION\s+([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    os.environ["TREMULA_MANUAL_PAGES"] = str(PAGES)
    os.environ["TREMULA_MANUAL_VERSION"] = version.group(1) if version else ""
    run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", "docs/mkdocs.yml", "--site-dir", str(SITE)])
    for name in ("sitemap.xml", "sitemap.xml.gz"):
        (SITE / name).unlink(missing_ok=True)
    names = interface_names()
    own = [path for path in SITE.rglob("*.html") if SITE / "api" not in path.parents]
    for path in own:
        finish(path, names)
    for path in (SITE / "api").glob("*.html"):
        mend(path)
    pages = {path: Page(path.read_text()) for path in SITE.rglob("*.html")}
    (SITE / "search_index.js").write_text(search_index(pages))
    wrong = check(pages)
    nav = (ROOT / "docs/mkdocs.yml").read_text()
    wrong += [f"docs/mkdocs.yml has no {place}" for name, place in stage.places.items() if name.startswith("docs/") and f": {place}\n" not in nav]
    if wrong:
        raise Broken("\n".join(wrong))
    return len(own)


def main() -> int:
    try:
        count = build()
    except Broken as broken:
        print(f"the manual: {broken}", file=sys.stderr)
        return 1
    print(f"{count} pages, not counting Doxygen's: {os.path.relpath(SITE)}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
