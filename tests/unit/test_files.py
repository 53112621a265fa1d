"""Files appear whole or not at all, and errors name the file that was asked for."""

import errno
import os

import pytest

from brtheory.files import atomic_path, write_text_atomic


def test_a_device_is_refused_instead_of_being_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="regular file") as caught:
        write_text_atomic(pipe, "text")
    assert caught.value.filename == str(pipe)
    assert pipe.is_fifo()


def test_a_symbolic_link_stays_one(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_text_atomic(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("name", ["x" * 255, "文" * 85])
def test_every_name_the_file_system_takes_can_be_written(tmp_path, name):
    # 255 bytes is the longest name; the temporary one must not be longer.
    write_text_atomic(tmp_path / name, "text")
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("target", [".", "file/below", "x" * 300])
def test_errors_name_the_target_and_not_the_temporary_file(tmp_path, target):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match=r"\S") as caught:
        write_text_atomic(tmp_path / target, "text")
    assert caught.value.filename == str(tmp_path / target)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_blamed_on_the_target_and_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match="No space") as caught:
        write_half(tmp_path / "out")
    assert caught.value.filename == str(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def write_half(target):
    with atomic_path(target) as part:
        part.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")


def test_an_error_about_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, atomic_path(tmp_path / "out"):
        (tmp_path / "other").read_text()
    assert caught.value.filename == str(tmp_path / "other")
