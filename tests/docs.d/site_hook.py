"""mkdocs' hook: the site has the repository's own paths, so that links work there as on a forge.

mkdocs takes one folder. This one is build/site-pages: links to every page for users, and to every file that such a page links
to. The navigation is docs/README.md. Of pages for contributors the site tells where in the repository they are.
"""
import pathlib
import re
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
    published, left_out = pages.for_users(), pages.for_contributors()
    for name in published:
        place(name)
    for name in published:
        for _, href, _, _ in pages.pages()[name].links:
            target = None if pages.is_external(href) else pages.target_of(pages.pages()[name], href)[0]
            if target in left_out:
                continue
            if target in pages.tracked():
                place(target)
            elif target in pages.folders() and f"{target}/README.md" not in pages.tracked():
                list_folder(target)
    config["docs_dir"] = str(STAGE)
    config["nav"] = [{"Contents": str(pages.INDEX.relative_to(pages.ROOT))}]
    config["nav"] += [{section: [{title: path} for title, path in entries]} for section, entries in pages.index()
                      if section != pages.CONTRIBUTORS]
    return config


def for_mkdocs(markdown):
    """Its Markdown is an older dialect: a list, a table or a comment under a paragraph needs an empty line before it, what
    belongs to a list's item is indented by four spaces, and a block's language is one word."""
    lines = markdown.split("\n")
    depth, starts = 0, []
    for token in pages.parsed(markdown):
        if token.type in ("bullet_list_open", "ordered_list_open", "table_open", "html_block", "fence") and not depth:
            starts.append(token.map[0])
        if token.type == "table_open":
            starts.append(token.map[1])  # what follows it
        if token.type == "fence" and len(token.info.split()) > 1:
            lines[token.map[0]] = lines[token.map[0]].replace(token.info.strip(), token.info.split()[0])
        if token.type == "list_item_open" and depth == 1:
            missing = 4 - len(re.match(r"\s*([-*]|\d+\.) ", lines[token.map[0]])[0])
            for at in range(token.map[0] + 1, token.map[1]):
                lines[at] = " " * missing + lines[at] if lines[at].startswith("  ") else lines[at]
        depth += token.nesting * (token.type.split("_")[0] in ("bullet", "ordered"))
    for start in sorted(starts, reverse=True):
        if 0 < start < len(lines) and lines[start - 1].strip() and lines[start].strip():
            lines.insert(start, "")
    return "\n".join(lines)


def in_repository(text, path):
    names_it = path.endswith((text, f"{text.rstrip('/')}/README.md"))
    return f"`{path}`" if names_it else f"{text}: `{path}`"


def on_page_markdown(markdown, page, config, files):
    """A link to a folder leads to its README. One to a page for contributors becomes that page's path in the repository."""
    del config, files
    known = pages.pages().get(page.file.src_path)
    markdown = for_mkdocs(markdown)
    for href in {href for _, href, _, _ in known.links if not pages.is_external(href)} if known else ():
        target = pages.target_of(known, href)[0]
        if target in pages.for_contributors():
            markdown = re.sub(r"\[([^\[\]]*)\]\(" + re.escape(href) + r"\)",
                              lambda match, path=target: in_repository(match[1], path), markdown)
        elif target in pages.folders() and "#" not in href:
            markdown = markdown.replace(f"]({href})", f"]({href.rstrip('/')}/README.md)")
    return markdown
