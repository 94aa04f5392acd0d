"""tools/release and tools/sbom, without compiling: on throw-away clones of this repository as it is committed and changed here,
with the program of build/release. By pytest.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/release"
CHANGES = """## [Unreleased]

### Added
- A thing.

### Fixed
- Another thing.

## [0.1.0] - 2026-11-23

### Added
- The first.
"""


def run(*command, cwd, ok=True):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    if ok and done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def edit(path, pattern, text):
    changed, count = re.subn(pattern, lambda _: text, path.read_text(), count=1)
    if count != 1:
        raise AssertionError(f"{path} has no {pattern}")
    path.write_text(changed)


class Release(unittest.TestCase):
    """Each test begins with a clone at version 0.1.0 with its tag, and with changes of two kinds in [Unreleased]."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.clone = pathlib.Path(folder.name) / "clone"
        run("git", "clone", "-q", "--no-tags", ROOT, cls.clone, cwd="/")
        for name in ("CHANGELOG.md", "CMakeLists.txt", "SECURITY.md", "tests/surface.txt", "tools/release", "tools/sbom"):
            shutil.copy2(ROOT / name, cls.clone / name)
        for key, value in (("user.name", "A Tester"), ("user.email", "tester@example.org"), ("commit.gpgsign", "false")):
            run("git", "config", key, value, cwd=cls.clone)
        edit(cls.clone / "CMakeLists.txt", r"project\(rung VERSION [\d.]+", "project(rung VERSION 0.1.0")
        edit(cls.clone / "SECURITY.md", r"[\d.]+\.x \| yes", "0.1.x | yes")
        edit(cls.clone / "CHANGELOG.md", r"(?s)## \[Unreleased\].*", CHANGES)
        run("git", "commit", "-qam", "test", "--allow-empty", cwd=cls.clone)
        run("git", "tag", "-a", "v0.1.0", "-m", "0.1.0", cwd=cls.clone)
        run("git", "clone", "-q", "--bare", cls.clone, cls.clone.with_name("origin"), cwd="/")
        run("git", "remote", "set-url", "origin", cls.clone.with_name("origin"), cwd=cls.clone)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.git("reset", "-q", "--hard", "v0.1.0")
        self.git("clean", "-qfdx")
        run("git", "tag", "-d", "v0.2.0", cwd=self.clone, ok=False)

    def git(self, *words):
        return run("git", *words, cwd=self.clone).stdout.strip()

    def edit(self, name, pattern, text):
        edit(self.clone / name, pattern, text)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "test", "--allow-empty")

    def release(self, *words, ok=True):
        return run("tools/release", *words, cwd=self.clone, ok=ok)

    def refused(self, version, *why):
        """Refused with exactly these reasons, and nothing changed."""
        before = self.state()
        done = self.release(version, "--dry-run", "--no-build", BUILD, ok=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), len(why), done.stderr)
        for line, part in zip(lines, why):
            self.assertIn(part, line)
        self.assertEqual(self.state(), before)

    def state(self):
        return self.git("rev-parse", "HEAD"), self.git("show-ref"), self.git("status", "--porcelain")

    def test_versions_that_are_refused(self):
        for version in ("0.2", "v0.2.0", "0.02.0", "0.2.0-rc1", "latest"):
            self.refused(version, f"{version} is no version: write X.Y.Z")
        for version in ("0.1.0", "0.0.9", "0.3.0", "2.0.0"):
            self.refused(version, f"{version} does not follow 0.1.0: the next version is 0.1.1, 0.2.0 or 1.0.0")
        self.refused("0.1.1", "is a patch, and [Unreleased] has Added: it is 0.2.0 at least")

    def test_a_patch_breaks_nothing_and_leaves_the_schema_as_it_is(self):
        self.edit("CHANGELOG.md", r"### Added\n- A thing.\n\n", "")
        self.edit("CHANGELOG.md", r"- Another thing", "- **Breaking**: another thing")
        self.edit("tests/surface.txt", r"config: lease\n", "")
        self.edit("sql/mysql/schema.sql", r"VARCHAR\(64\)", "VARCHAR(65)")
        self.commit()
        self.refused("0.1.1", "changes the schema: it is 0.2.0 at least", "has a breaking change",
                     "these public names of 0.1.0 are gone, so it is 0.2.0 at least: config: lease")

    def test_a_repository_that_is_not_ready(self):
        self.edit("CHANGELOG.md", r"### Added\n- A thing.\n\n### Fixed\n- Another thing.\n", "")
        self.refused("0.2.0", "nothing under [Unreleased]", "not committed")
        self.edit("CHANGELOG.md", r"## \[Unreleased\]\n", "")
        self.commit()
        self.refused("0.2.0", "has no section ## [Unreleased]")

    def test_a_version_in_a_file_that_the_tool_does_not_know(self):
        (self.clone / "chart.yaml").write_text("appVersion: 0.1.0\n")
        self.commit()
        self.refused("0.2.0", "chart.yaml has the version 0.1.0: add the file to PLACES or EXEMPT")

    def test_a_dry_run_makes_everything_and_changes_nothing(self):
        before = self.state()
        keep = self.folder / "kept"
        done = self.release("0.2.0", "--dry-run", "--keep", keep, "--no-build", BUILD)
        self.assertEqual(self.state(), before)
        self.assertIn("tag v0.2.0", done.stderr)
        names = sorted(path.name for path in keep.iterdir())
        self.assertEqual(names, ["RELEASE-NOTES.md", "SHA256SUMS", "rung-0.2.0.spdx.json", "rung-0.2.0.tar.gz"])
        run("sha256sum", "--strict", "-c", "SHA256SUMS", cwd=keep)
        self.assertEqual(len((keep / "SHA256SUMS").read_text().splitlines()), 3)
        self.assertEqual((keep / "RELEASE-NOTES.md").read_text(), "### Added\n- A thing.\n\n### Fixed\n- Another thing.\n")
        self.check_source(keep / "rung-0.2.0.tar.gz")
        self.check_sbom(keep / "rung-0.2.0.spdx.json", keep)

    def test_a_release_is_committed_and_tagged_here_and_nothing_is_pushed(self):
        before, origin = self.git("rev-parse", "HEAD"), self.git("ls-remote", "origin")
        # The command line has no release without builds.
        given = "argparse.Namespace(dry_run=False, once=True, no_build=pathlib.Path(sys.argv[1]), keep=None)"
        done = self.python(f"module.release('0.2.0', {given}, pathlib.Path(sys.argv[2]))", BUILD, self.folder / "work")
        self.assertEqual(self.git("rev-parse", "HEAD^"), before)
        self.assertEqual(self.git("rev-parse", "v0.2.0^{commit}"), self.git("rev-parse", "HEAD"))
        self.assertEqual(self.git("cat-file", "-t", "v0.2.0"), "tag")
        self.assertEqual(self.git("log", "-1", "--format=%s, %an"), "release: 0.2.0, A Tester")
        self.assertEqual(self.git("status", "--porcelain"), "")
        self.assertEqual(self.git("ls-remote", "origin"), origin)
        self.assertIn("git push origin", done.stderr)
        self.assertTrue((self.clone / "build/releases/0.2.0/SHA256SUMS").exists())

    def python(self, code, *arguments):
        """Runs `code` with tools/release as `module`."""
        load = "import argparse, importlib.machinery, importlib.util, pathlib, sys\n" \
               "loader = importlib.machinery.SourceFileLoader('release', 'tools/release')\n" \
               "module = importlib.util.module_from_spec(importlib.util.spec_from_loader('release', loader))\n" \
               "loader.exec_module(module)\n"
        return run(sys.executable, "-c", load + code, *arguments, cwd=self.clone)

    def check_source(self, archive):
        run("tar", "-xzf", archive, cwd=self.folder)
        tree = self.folder / "rung-0.2.0"
        begin = r"\n## \[Unreleased\]\n\n## \[0\.2\.0\] - \d{4}-\d\d-\d\d\n\n### Added\n- A thing\.\n"
        self.assertRegex((tree / "CHANGELOG.md").read_text(), begin + r"(?s:.*)\n## \[0\.1\.0\] - 2026-11-23\n")
        self.assertIn("project(rung VERSION 0.2.0 ", (tree / "CMakeLists.txt").read_text())
        self.assertIn("| 0.2.x | yes |", (tree / "SECURITY.md").read_text())
        self.assertEqual(archive.read_bytes()[4:8], b"\0\0\0\0", "gzip's header has a time")

    def check_sbom(self, path, keep):
        document = json.loads(path.read_text())
        links = [(link["relationshipType"], link["relatedSpdxElement"]) for link in document["relationships"]
                 if link["spdxElementId"] == "SPDXRef-rung"]
        for expected in (("DYNAMIC_LINK", "SPDXRef-deb-libuv1"), ("STATIC_LINK", "SPDXRef-deb-libcli11-dev"),
                         ("STATIC_LINK", "SPDXRef-deb-nlohmann-json3-dev")):
            self.assertIn(expected, links)
        packages = {one["name"]: one for one in document["packages"]}
        installed = run("dpkg-query", "-W", "-f", "${Version}", "libuv1", cwd="/").stdout
        self.assertEqual(packages["libuv1"]["versionInfo"], installed)
        self.assertEqual(packages["libuv1"]["licenseDeclared"], "MIT")
        self.assertIn(packages["rung-0.2.0.tar.gz"]["checksums"][0]["checksumValue"] + "  rung-0.2.0.tar.gz",
                      (keep / "SHA256SUMS").read_text())
        self.check_finds_faults(document)

    def check_finds_faults(self, good):
        def complaints(break_it):
            document = json.loads(json.dumps(good))
            break_it(document)
            (self.folder / "sbom.json").write_text(json.dumps(document))
            return run("tools/sbom", "--check", self.folder / "sbom.json", cwd=self.clone, ok=False).stderr
        self.assertEqual(complaints(lambda one: None), "")
        self.assertIn("is there twice", complaints(lambda one: one["packages"].append(one["packages"][0])))
        self.assertIn("which is not there", complaints(lambda one: one["packages"].pop()))
        self.assertIn("has no relationship", complaints(lambda one: one["relationships"].pop()))
        self.assertIn("SHA256 is malformed", complaints(lambda one: one["packages"][1]["checksums"][0].update(checksumValue="12")))
        self.assertIn("malformed package URL",
                      complaints(lambda one: one["packages"][-1]["externalRefs"][0].update(referenceLocator="deb/libuv1@1")))
        self.assertIn("documentNamespace", complaints(lambda one: one.update(documentNamespace="https://a.example/#b")))

    def test_the_same_commit_gives_the_same_files(self):
        for folder in ("one", "other"):
            self.release("--check-reproducible", "--no-build", BUILD, "--keep", self.folder / folder)
        sums = [(self.folder / folder / "SHA256SUMS").read_text() for folder in ("one", "other")]
        self.assertEqual(sums[0], sums[1])

    def test_differences_are_found_and_named(self):
        for folder, text in (("one", "a"), ("other", "b")):
            tree = self.folder / folder / "tree"
            tree.mkdir(parents=True)
            (tree / "equal").write_text("equal")
            (tree / "unequal").write_text(text)
            run("tar", "-czf", "../x.tar.gz", "--mtime=@0", ".", cwd=tree)
            shutil.rmtree(tree)
        printed = self.python("print(module.differences(*map(pathlib.Path, sys.argv[1:])))", self.folder / "one", self.folder / "other").stdout
        self.assertEqual(printed, "['x.tar.gz differs in: unequal']\n")


class Packing(unittest.TestCase):
    """cpack runs deploy/staged.cmake: a program that is missing is named, with the package that has it."""

    def missing(self, *there):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "tree/rung/etc/rung").mkdir(parents=True)
            programs = pathlib.Path(folder) / "bin"
            programs.mkdir()
            for name in there:
                (programs / name).symlink_to(shutil.which(name) or "/bin/true")
            done = subprocess.run([shutil.which("cmake"), "-DCPACK_GENERATOR=DEB", f"-DCPACK_TEMPORARY_DIRECTORY={folder}/tree",
                                   "-P", ROOT / "deploy/staged.cmake"], capture_output=True, text=True, env={"PATH": str(programs)})
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_names_what_is_missing(self):
        self.assertIn("file is missing: apt-get install file", self.missing("dpkg-shlibdeps"))
        self.assertIn("dpkg-shlibdeps is missing: apt-get install dpkg-dev", self.missing("file"))


class Program(unittest.TestCase):
    def test_has_no_path_of_the_folder_that_it_was_built_in(self):
        """-ffile-prefix-map sees to it: else two builds in two folders would differ."""
        folder = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.M)[1]
        with tempfile.TemporaryDirectory() as scratch:
            run("objcopy", "--decompress-debug-sections", BUILD / "rung.debug", f"{scratch}/debug", cwd="/")
            for path in (BUILD / "rung", pathlib.Path(scratch, "debug")):
                self.assertFalse(folder.encode() + b"/" in path.read_bytes(), f"{path.name} has paths that begin with {folder}/")
            self.assertIn(b"./src/", pathlib.Path(scratch, "debug").read_bytes())
