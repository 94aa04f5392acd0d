"""mkdocs' hook: the site has the repository's own paths, so that links work there as on a forge.

mkdocs takes one folder. This one is build/site-pages: links to every page, and to every file that a page links to. The
navigation is docs/README.md.
"""
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import pages  # noqa: E402  pylint: disable=wrong-import-position

STAGE = pages.ROOT / "build/site-pages"


def place(name):
    target = STAGE / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        target.symlink_to(pages.ROOT / name)


def list_folder(name):
    """A page for a folder that is linked to and has no README.md: a forge would list its files."""
    files = [file for file in pages.tracked() if file.startswith(f"{name}/")]
    (STAGE / name).mkdir(parents=True, exist_ok=True)
    for file in files:
        place(file)
    lines = [f"- [{file[len(name) + 1:]}]({file[len(name) + 1:]})" for file in files]
    (STAGE / name / "README.md").write_text(f"# {name}\n\n" + "\n".join(lines) + "\n")


def on_config(config):
    shutil.rmtree(STAGE, ignore_errors=True)
    published = [name for name in pages.pages() if not name.startswith(".")]
    for name in published:
        place(name)
    for name in published:
        for _, href, _, _ in pages.pages()[name].links:
            target = None if pages.is_external(href) else pages.target_of(pages.pages()[name], href)[0]
            if target in pages.tracked():
                place(target)
            elif target in pages.folders() and f"{target}/README.md" not in pages.tracked():
                list_folder(target)
    config["docs_dir"] = str(STAGE)
    config["nav"] = [{"Contents": str(pages.INDEX.relative_to(pages.ROOT))}]
    config["nav"] += [{section: [{title: path} for title, path in entries]} for section, entries in pages.index() if section]
    return config


def on_page_markdown(markdown, page, config, files):
    """A link to a folder leads to its README."""
    del config, files
    known = pages.pages().get(page.file.src_path)
    for _, href, _, _ in known.links if known else []:
        if not pages.is_external(href) and pages.target_of(known, href)[0] in pages.folders() and "#" not in href:
            markdown = markdown.replace(f"]({href})", f"]({href.rstrip('/')}/README.md)")
    return markdown
