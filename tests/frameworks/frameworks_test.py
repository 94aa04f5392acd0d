"""The examples of examples/frameworks on a real RabbitMQ with a sidecar: each gets three messages, and what its consumer prints,
retry_current and retry_history must agree.

tests/packages run test frameworks; /usr/bin/python3 -m pytest tests/frameworks [-k NAME]. What npm's registry or Node.js (20 for
NestJS 11) is missing for is skipped.
"""
import os
import shutil
import subprocess

import checks
import pytest
from starting import ROOT, Place, Unavailable, npm_modules
from table import FRAMEWORKS

HERE = ROOT / "tests/frameworks"


@pytest.fixture(scope="session")
def place(servers):
    with Place("frameworks") as own:
        own.write_config(f", management: \"{os.environ['RUNG_TEST_MANAGEMENT']}\"", (HERE / "rung.yaml").read_text())
        own.start_rung()
        yield own


def packages(framework, example):
    """Its node_modules. NestJS 11 does not run on a Node.js below 20, Debian 12's 18."""
    try:
        modules = npm_modules(example, f"framework-{example.name}") / "node_modules"
    except Unavailable as why:
        pytest.skip(str(why))
    version = subprocess.run(["node", "-p", "process.versions.node"], stdout=subprocess.PIPE, text=True, check=True).stdout
    if framework.language == "ts" and int(version.split(".")[0]) < 20:
        pytest.skip(f"NestJS 11 needs Node.js 20, and this is {version}")
    return modules


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_framework(framework, place, tmp_path):
    example, folder = ROOT / "examples/frameworks" / framework.example, tmp_path / "example"
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    for extra in framework.extra:
        shutil.copy(HERE / extra, folder)
    if framework.npm:
        (folder / "node_modules").symlink_to(packages(framework, example))
    if framework.build:
        subprocess.run(framework.build, cwd=folder, env={**os.environ, **framework.env}, check=True)
    checks.run(framework, folder, place)
