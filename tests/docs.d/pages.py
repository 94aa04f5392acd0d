"""The Markdown pages of the repository: their headings, links, blocks, and the comments that say how a block is run."""
import functools
import os
import pathlib
import re
import subprocess

from markdown_it import MarkdownIt

ROOT = pathlib.Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs/README.md"
CONTRIBUTORS = "Work on Rung"  # a section of the index
WORLDS = ROOT / "tests/docs.d/worlds"
NOTE = re.compile(r"<!--\s*(not run|not compared|page not run|before|in the background)(?::\s*(.*?))?\s*-->", re.DOTALL)


class Block:
    """A fenced block, or an indented one (language None). `line` is that of its first line of content, from 1."""

    def __init__(self, page, token, notes):
        words = token.info.split()
        self.page, self.text = page, token.content
        self.fenced = token.type == "fence"
        self.language = words[0] if words else ""
        self.of_runbook = words[1:] in (["look"], ["do"])  # for a machine that has the alert's trouble
        self.line = token.map[0] + (2 if self.fenced else 1)
        self.notes = notes  # what stands in comments just above it: {"not run": "needs root"}

    @property
    def where(self):
        return f"{self.page.name}:{self.line}"


class Page:
    def __init__(self, path):
        self.path, self.name = path, str(path.relative_to(ROOT))
        self.blocks, self.links, self.headings, self.inline, self.complaints = [], [], [], [], []
        text = path.read_text()
        if path.parent.name == "ISSUE_TEMPLATE":
            text = re.sub(r"\A---\n.*?\n---\n", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
        self.not_run = None
        self._read(parsed(text))

    def _read(self, tokens):
        notes, section = {}, ""
        for i, token in enumerate(tokens):
            if token.type == "html_block":
                found = NOTE.findall(token.content)
                if "<!--" in token.content and not found and not self.name.startswith(".github/"):
                    self.complaints.append((token.map[0] + 1, "unknown comment: " + token.content.strip()))
                for kind, reason in found:
                    if kind in ("not run", "page not run", "not compared", "before") and not reason:
                        self.complaints.append((token.map[0] + 1, f"'{kind}' needs a reason or a name"))
                    notes[kind] = reason
                if "page not run" in notes:
                    self.not_run = notes.pop("page not run")
                continue
            if token.type in ("fence", "code_block"):
                self.blocks.append(Block(self, token, notes))
                if re.fullmatch(r"[A-Z]{3,}\s*", token.content):
                    self.complaints.append((self.blocks[-1].line, f"a placeholder was left: {token.content.strip()}"))
                notes = {}
            elif token.type == "inline":
                if tokens[i - 1].type == "heading_open":
                    section = plain(token)
                    self.headings.append((int(tokens[i - 1].tag[1]), section))
                self._read_inline(token, section)
            if notes and token.block and token.nesting >= 0:
                self.complaints.append(((token.map or [0])[0] + 1, f"a comment about no block: {', '.join(notes)}"))
                notes = {}
        if notes:
            self.complaints.append((0, f"a comment about no block: {', '.join(notes)}"))

    def _read_inline(self, token, section):
        line = token.map[0] + 1
        for i, child in enumerate(token.children):
            if child.type in ("softbreak", "hardbreak"):
                line += 1
            elif child.type == "link_open":
                self.links.append((line, child.attrGet("href"), text_until_close(token.children[i + 1:]), section))
            elif child.type == "image":
                self.links.append((line, child.attrGet("src"), child.content, section))
            elif child.type == "code_inline":
                self.inline.append((line, child.content))
                line += child.content.count("\n")
            elif child.type == "html_inline" and child.content.startswith("<!--"):
                self.complaints.append((line, "a comment within a paragraph: an empty line before it is missing"))

    @functools.cached_property
    def anchors(self):
        """As forges make them, and the site (pymdownx.slugs): the second of a name gets -1."""
        seen, out = {}, set()
        for _, heading in self.headings:
            slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            out.add(f"{slug}-{count}" if count else slug)
        return out


def parsed(text):
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)


def plain(token):
    return "".join(child.content for child in token.children if child.type in ("text", "code_inline"))


def text_until_close(children):
    out = ""
    for child in children:
        if child.type == "link_close":
            break
        out += child.content
    return out


@functools.cache
def tracked():
    """Tracked and new files, without ignored ones."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout
    return {name: None for name in sorted(listed.splitlines()) if (ROOT / name).exists()}


@functools.cache
def folders():
    return {str(parent) for name in tracked() for parent in pathlib.PurePath(name).parents}


@functools.cache
def pages():
    return {name: Page(ROOT / name) for name in tracked() if name.endswith(".md")}


def is_external(href):
    return re.match(r"[a-z][a-z0-9+.-]*:", href) is not None


def target_of(page, href):
    """(path within the repository, anchor) of a relative link."""
    path, _, anchor = href.partition("#")
    whole = os.path.normpath(os.path.join(os.path.dirname(page.name), path)) if path else page.name
    return whole, anchor


def world_of(page):
    """What the page takes for granted when its commands are run (live.py); the file need not exist."""
    name = page.name if page.path == INDEX else page.name.removeprefix("docs/")
    return WORLDS / (name.removesuffix(".md").replace("/", ".") + ".sh")


def index():
    """[(section, [(title, page within the repository)])] of docs/README.md: the order of the docs, and the site's."""
    out = []
    page = pages()[str(INDEX.relative_to(ROOT))]
    seen = set()
    for _, href, title, section in page.links:
        if is_external(href) or section == page.headings[0][1]:
            continue
        path = target_of(page, href)[0]
        if path in seen or not path.endswith(".md"):
            continue
        seen.add(path)
        if not out or out[-1][0] != section:
            out.append((section, []))
        out[-1][1].append((title, path))
    return out


def for_contributors():
    """Pages that the site leaves out: what docs/README.md lists under CONTRIBUTORS."""
    listed = {path for section, entries in index() if section == CONTRIBUTORS for _, path in entries}
    return {name for name in pages() if name in listed}


def for_users():
    """The pages of the site: what else docs/README.md lists, and each page that those lead to."""
    left_out = for_contributors()
    out, ahead = set(), {str(INDEX.relative_to(ROOT)), *(path for _, entries in index() for _, path in entries)}
    while ahead:
        name = ahead.pop()
        if name not in pages() or name in left_out or name in out:
            continue
        out.add(name)
        for _, href, _, _ in pages()[name].links:
            target = name if is_external(href) else target_of(pages()[name], href)[0]
            ahead |= {target, f"{target}/README.md"}
    return out
