"""Builds the site, and checks the links and anchors of what was built."""
import html.parser
import os
import subprocess
import urllib.parse

from pages import ROOT

SITE = ROOT / "build/site"


class Html(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.hrefs = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids |= {values.get("id"), values.get("name") if tag == "a" else None} - {None}
        if tag == "a" and values.get("href"):
            self.hrefs.append(values["href"])


def build():
    done = subprocess.run(["mkdocs", "build", "--strict", "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        yield from (done.stdout + done.stderr).splitlines()
        return
    read = {path: Html(path.read_text()) for path in SITE.rglob("*.html")}
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
