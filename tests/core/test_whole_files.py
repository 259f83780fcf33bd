"""Files appear whole, through no link; files of a stranger's folder are read from that folder alone."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from reticent.core.errors import DataError
from reticent.core.files import open_new, read_inside, whole_file, write_json, write_whole


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file outside the folder that is written to."""
    path = tmp_path / "authorized_keys"
    path.write_text("mine\n")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


def test_a_link_at_the_name_is_replaced_and_its_target_left_alone(victim: Path, folder: Path) -> None:
    (folder / "report.html").symlink_to(victim)
    write_whole(folder / "report.html", b"page")
    assert victim.read_text() == "mine\n"
    assert not (folder / "report.html").is_symlink()
    assert (folder / "report.html").read_bytes() == b"page"


def test_links_at_names_that_can_be_guessed_are_not_written_through(victim: Path, folder: Path) -> None:
    for name in (".report.html.partial", "report.html.partial", f".report.html.{os.getpid()}.partial"):
        (folder / name).symlink_to(victim)
    write_whole(folder / "report.html", b"page")
    assert victim.read_text() == "mine\n"


def test_a_new_file_is_never_opened_over_a_link_or_a_file(victim: Path, folder: Path) -> None:
    (folder / "link").symlink_to(victim)
    (folder / "dangling").symlink_to(folder / "nowhere")
    for path in (victim, folder / "link", folder / "dangling"):
        with pytest.raises(FileExistsError):
            open_new(path)
    assert not (folder / "nowhere").exists()


def test_what_fails_on_the_way_leaves_the_old_content_and_nothing_else(folder: Path) -> None:
    path = folder / "a.json"
    write_json(path, {"a": 1})

    def fail() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert os.listdir(folder) == ["a.json"]
    assert path.read_text() == '{\n  "a": 1\n}\n'


def test_private_files_are_for_their_owner(folder: Path) -> None:
    write_whole(folder / "private", b"", is_private=True)
    assert stat.S_IMODE((folder / "private").stat().st_mode) == 0o600


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file or directory"):
        write_whole(tmp_path / "nowhere" / "a", b"")


@pytest.mark.parametrize("how", ["the file", "a folder above it"])
def test_no_link_is_followed_out_of_a_folder(victim: Path, folder: Path, how: str) -> None:
    if how == "the file":
        (folder / "attacks").mkdir()
        (folder / "attacks" / victim.name).symlink_to(victim)
    else:
        (folder / "attacks").symlink_to(victim.parent)
    with pytest.raises(OSError, match="symbolic link") as caught:
        read_inside(folder, f"attacks/{victim.name}")
    assert caught.value.errno == errno.ELOOP


def test_a_folder_that_is_a_link_itself_may_be_named_by_its_user(folder: Path, tmp_path: Path) -> None:
    (folder / "a").write_bytes(b"here")
    (tmp_path / "latest").symlink_to(folder)
    assert read_inside(tmp_path / "latest", "a") == b"here"


def test_pipes_and_large_files_are_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(OSError, match="Not a plain file"):
        read_inside(folder, "pipe")
    (folder / "large").write_bytes(bytes(11))
    with pytest.raises(OSError, match="Larger than 10 bytes"):
        read_inside(folder, "large", most=10)
    with pytest.raises(IsADirectoryError):
        read_inside(folder.parent, "run")
