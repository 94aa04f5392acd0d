"""Builds the site, and checks the links and anchors of what was built."""
import collections
import html.parser
import os
import subprocess
import urllib.parse

from pages import ROOT, for_contributors, for_users, pages, parsed

SITE = ROOT / "build/site"
TAGS = {"li": "list_item_open", "table": "table_open", "pre": "fence"}


class Html(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.hrefs, self.counts = set(), [], collections.Counter()
        self.in_article = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids |= {values.get("id"), values.get("name") if tag == "a" else None} - {None}
        if tag == "a" and values.get("href"):
            self.hrefs.append(values["href"])
        self.in_article = self.in_article or tag == "article"
        if self.in_article and tag in TAGS:
            self.counts[tag] += 1

    def handle_endtag(self, tag):
        self.in_article = self.in_article and tag != "article"


def built_of(name):
    html_name = name.removesuffix(".md")
    html_name = html_name.removesuffix("README") + "index" if html_name.endswith("README") else html_name
    return SITE / f"{html_name}.html"


def right_pages(read):
    """Those for users, and no page for contributors."""
    for name in sorted(for_users()):
        if built_of(name) not in read:
            yield f"{name}: is not in the site"
    for name in sorted(for_contributors()):
        if built_of(name) in read or (SITE / name).exists():
            yield f"{name}: is for contributors, and is in the site"


def same_parts(read):
    """mkdocs has another parser than forges: it must find the same lists, tables and blocks."""
    for name, page in pages().items():
        built = read.get(built_of(name))
        if built is None:
            continue
        shown = collections.Counter(token.type for token in parsed(page.path.read_text()))
        for tag, kind in TAGS.items():
            expected = shown[kind] + (shown["code_block"] if tag == "pre" else 0)
            if built.counts[tag] != expected:
                yield f"{name}: has {expected} of {kind}, its page of the site has {built.counts[tag]}"


def build():
    done = subprocess.run(["mkdocs", "build", "--strict", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield from (done.stdout + done.stderr).splitlines()
        return
    read = {path: Html(path.read_text()) for path in SITE.rglob("*.html")}
    yield from right_pages(read)
    yield from same_parts(read)
    for path, page in read.items():
        if path.name == "404.html":  # its links are absolute
            continue
        for href in page.hrefs:
            parts = urllib.parse.urlsplit(href)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else path.parent / urllib.parse.unquote(parts.path)
            target = ROOT / os.path.normpath(target)
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                yield f"{path.relative_to(ROOT)}: {href}: there is no such file in the site"
            elif parts.fragment and target in read and urllib.parse.unquote(parts.fragment) not in read[target].ids:
                yield f"{path.relative_to(ROOT)}: {href}: no such anchor"
    print(f"docs: {len(read)} pages of the site, {sum(len(page.hrefs) for page in read.values())} links")
