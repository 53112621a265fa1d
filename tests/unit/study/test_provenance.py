"""Provenance: revisions of real checkouts, digests that follow the sources."""

import shutil
import subprocess

import pytest

from brtheory.study.provenance import Revision, code_digest, revision, versions


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True
    )  # fixed arguments


def test_no_checkout_has_no_revision(tmp_path):
    assert revision(tmp_path / "brtheory") == Revision(commit=None, dirty=None)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_dirty_follows_the_working_tree(tmp_path):
    package = tmp_path / "brtheory"
    package.mkdir()
    (package / "a.py").write_text("1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    clean = revision(package)
    assert len(clean.commit) == 40
    assert clean.dirty is False
    (package / "a.py").write_text("2\n")
    assert revision(package) == Revision(commit=clean.commit, dirty=True)


def test_digest_follows_sources_that_make_numbers(tmp_path, monkeypatch):
    package = tmp_path / "brtheory"
    for part in ("core", "cli", "study"):
        (package / part).mkdir(parents=True)
    (package / "core" / "a.py").write_text("1\n")
    (package / "cli" / "b.py").write_text("1\n")
    (package / "study" / "tasks.py").write_text("1\n")
    monkeypatch.setattr("brtheory.study.provenance.package_root", lambda: package)

    def digest():
        return code_digest.__wrapped__("brtheory.routers.registry")

    first = digest()
    (package / "cli" / "b.py").write_text("2\n")
    assert digest() == first
    (package / "study" / "tasks.py").write_text("2\n")
    second = digest()
    (package / "core" / "a.py").write_text("2\n")
    assert len({first, second, digest()}) == 3


def test_versions_are_those_installed():
    assert {"python", "brtheory", "numpy"} <= set(versions())
