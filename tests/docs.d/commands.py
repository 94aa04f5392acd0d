"""Every `rung` command line, every YAML config and every query of the docs, given to the program or the database."""
import os
import pathlib
import re
import shlex
import subprocess

import yaml

from pages import ROOT, pages
from static import commands_of

HISTORY = ("CHANGELOG.md", "docs/decisions.md", ".github/")
CONFIG = "there-is-no-such-config.yaml"
PLACEHOLDERS = dict.fromkeys(["ID", "N", "FILE", "TIME", "DURATION", "QUEUE", "NAME", "TAG", "TEXT"], "7") | {"CAUSE": "9f2c41d07ab3"}
PLACEHOLDERS |= {"COMMAND": "list", "EVENT": "stopped"}
# "`rung attach` cannot see that": the text names a command, without what it needs.
INCOMPLETE = re.compile("is required|requires|A subcommand is required|1 required|no queues given|no tasks selected")
NOT_COMMANDS = {"rung starting"}  # an event of the log
# What a fragment of a config needs besides itself.
ALWAYS = {"broker": 'broker: { url: "amqp://guest:guest@127.0.0.1:5672/%2f" }',
          "store": 'store: { url: "mysql://rung:secret@127.0.0.1:3306/rung" }',
          "ladders": "ladders: { default: [1s, 2s], quick: [1s], patient: [1h, 2h] }"}


def split(text):
    """The simple commands of a script, as lists of words."""
    begun = ""
    for line in text.splitlines():
        begun += line
        if line.endswith("\\"):
            begun = begun[:-1]
            continue
        lexer = shlex.shlex(begun, posix=True, punctuation_chars=";|&<>()")
        lexer.whitespace_split = True
        try:
            tokens = list(lexer)
        except ValueError:  # a quote that the next line may close
            begun += "\n"
            continue
        begun = ""
        yield from simple_commands(tokens)


def simple_commands(tokens):
    words, skip = [], False
    for token in [*tokens, ";"]:
        if set(token) <= set(";|&()"):
            if words:
                yield words
            words = []
        elif set(token) <= set("<>&"):
            skip = True  # the file of a redirection
        elif skip:
            skip = False
        else:
            words.append(token)


def found():
    """(where, words, whether the text only names the command) of each command line that begins with rung."""
    for page in pages().values():
        if page.name.startswith(HISTORY):
            continue
        for block in page.blocks:
            if block.language in ("sh", "console"):
                for words in split(commands_of(block)):
                    if words[0] == "rung":
                        yield block.where, words[1:], False
        for line, code in page.inline:
            if code.startswith("rung ") and code not in NOT_COMMANDS and not re.search(r"\[|\.\.\.|…|, ", code):
                for words in split(code):
                    if words[0] == "rung":
                        yield f"{page.name}:{line}", words[1:], True


def parsed(program, folder):
    """The program's own parser. Each command then looks for its config: a missing one shows that the parser was content."""
    environment = dict(os.environ, RUNG_CONFIG=CONFIG)
    environment.pop("RUNG_GROUP", None)
    tried = {}
    count = 0
    for where, words, named in found():
        # reload reads no config: its help shows that the parser was content.
        words = [PLACEHOLDERS.get(word, word) for word in words if word != "--help"]
        words += ["--help"] * (words[:1] == ["reload"])
        for option in ("-c", "--config", "--against", "--token-file"):
            if option in words:
                words[words.index(option) + 1] = CONFIG
        count += 1
        key = tuple(words)
        if key not in tried:
            done = subprocess.run([program, *words], cwd=folder, env=environment, capture_output=True, text=True,
                                  timeout=120, stdin=subprocess.DEVNULL, check=False)
            content = done.returncode in (0, 3) or CONFIG in done.stderr
            tried[key] = None if content else " ".join((done.stderr or done.stdout).split())[:300]
        if tried[key] and not (named and INCOMPLETE.search(tried[key])):
            yield f"{where}: rung {shlex.join(words)}: {tried[key]}"
    print(f"docs: {count} rung command lines parsed ({len(tried)} different)")


def keys():
    """The top-level keys of a config: from docs/configuration.md's example of all of them."""
    text = re.sub(r"^# ?(?=[a-z_]+:)", "", (ROOT / "examples/full.yaml").read_text(), flags=re.MULTILINE)
    return set(re.findall(r"^([a-z_]+):", text, re.MULTILINE)) | {"delays", "tags", "groups", "rules", "error_queues"}


def whole(text, data):
    """The fragment as a whole config."""
    if "gate" in data and len(data) == 1:
        text = "queues:\n  orders:\n" + "".join(f"    {line}\n" for line in text.splitlines())
        data = {"queues": data}
    absent = {key: line for key, line in ALWAYS.items() if key not in data}
    if "groups" in data:
        absent.pop("store", None)
    elif "broker" in data and not {"url", "urls"} & set(data["broker"]):
        data = dict(data, broker=yaml.safe_load(ALWAYS["broker"])["broker"] | data["broker"])
        text = yaml.safe_dump(data)
    return text + "\n" + "\n".join(absent.values()) + "\n"


def configs(program, folder):
    known = keys()
    config = pathlib.Path(folder) / "rung.yaml"
    count = 0
    for page in pages().values():
        for block in page.blocks:
            data = yaml.safe_load(block.text) if block.language == "yaml" else None
            if isinstance(data, list) and all(isinstance(one, dict) and {"name", "role"} <= set(one) for one in data):
                (config.parent / "tokens.yaml").write_text(block.text)  # http.tokens_file
                data = {"http": {"tokens_file": "tokens.yaml"}}
                config.write_text(whole("http: { tokens_file: tokens.yaml }\n", data))
            elif not isinstance(data, dict):
                continue
            elif {"name", "queue", "remove"} <= set(data):  # a dialect
                (config.parent / "dialect.yaml").write_text(block.text)
                config.write_text(whole("dialects: ./dialect.yaml\n", {}))
            elif set(data) & (known | {"gate"}):
                config.write_text(whole(block.text, data))
            else:
                continue  # another program's
            count += 1
            names = set(re.findall(r"\$\{(\w+)\}", block.text))
            done = subprocess.run([program, "check", "-c", str(config)], cwd=folder, capture_output=True, text=True, timeout=120,
                                  check=False, env=dict(os.environ, **{name: "the-value-of-a-variable" for name in names}))
            if done.returncode != 0:
                yield f"{block.where}: rung check: {done.stderr.replace(str(config), 'the block').strip()}"
    print(f"docs: {count} configs validated")


def planned(servers):
    """The queries: EXPLAIN on a new schema. Other statements are run with their pages, or not at all."""
    config = servers.dir / "rung.yaml"
    config.write_text(servers.local("\n".join(ALWAYS.values())))
    servers.reset()
    subprocess.run([servers.program, "migrate", "-c", str(config)], check=True, capture_output=True)
    count = 0
    for page in pages().values():
        texts = [(block.where, block.text) for block in page.blocks
                 if block.language == "sql" and "not run" not in block.notes and not page.not_run]
        if not page.name.startswith(HISTORY):
            texts += [(f"{page.name}:{line}", code) for line, code in page.inline
                      if code.startswith("SELECT ") and "..." not in code]
        for where, text in texts:
            if not text.lstrip().startswith("SELECT"):
                continue
            for statement in filter(None, (part.strip() for part in text.split(";"))):
                count += 1
                done = servers.sql(f"EXPLAIN {statement}", ["rung"])
                if done.returncode != 0:
                    yield f"{where}: {done.stderr.strip()}"
    print(f"docs: {count} SQL statements planned")
