"""Group commit: one wait for the disk for all who ask meanwhile, and never too short a one."""

import os
import threading
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from turnchart.machine import disk
from turnchart.machine.disk import Disk


class Platter:
    """A disk that takes its time."""

    def __init__(self) -> None:
        self.goes = threading.Event()
        self.goes.set()
        self.began = threading.Event()
        self.syncs = 0
        self.fails = False

    def __call__(self, _fd: int) -> None:
        self.began.set()
        self.goes.wait(10)
        if self.fails:
            raise OSError("the disk is gone")
        self.syncs += 1


@pytest.fixture
def platter(monkeypatch: pytest.MonkeyPatch) -> Platter:
    made = Platter()
    monkeypatch.setattr(disk, "sync_data", made)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Generator[Disk]:
    made = Disk(os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT), tmp_path)
    yield made
    made.close()


async def test_whoever_comes_while_the_disk_works_shares_the_next_wait(file: Disk, platter: Platter) -> None:
    platter.goes.clear()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(file.reach, 1)
        await anyio.to_thread.run_sync(platter.began.wait)
        for mark in range(2, 12):
            tasks.start_soon(file.reach, mark)
        await anyio.wait_all_tasks_blocked()
        platter.goes.set()
    assert platter.syncs == 2


async def test_what_is_safe_already_needs_no_wait(file: Disk, platter: Platter) -> None:
    await file.reach(5)
    await file.reach(5)
    await file.reach(3)
    assert platter.syncs == 1
    await file.reach(6)
    assert platter.syncs == 2


async def test_a_disk_that_refused_is_asked_again(file: Disk, platter: Platter) -> None:
    platter.fails = True
    with pytest.raises(OSError, match="the disk is gone"):
        await file.reach(1)
    platter.fails = False
    await file.reach(1)
    assert platter.syncs == 1


async def test_a_closed_file_is_as_safe_as_it_will_be(file: Disk, platter: Platter) -> None:
    file.close()
    file.close()
    await file.reach(1)
    file.sync(2)
    assert platter.syncs == 0


def test_the_folder_is_made_safe_once(
    tmp_path: Path, platter: Platter, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(disk, "sync_folder", synced.append)
    made = Disk(os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT), tmp_path)
    made.sync(0)
    made.sync(1)
    made.close()
    assert (synced, platter.syncs) == ([tmp_path], 2)


def test_a_folder_is_synced_through_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []

    def sync(fd: int) -> None:
        synced.append(os.path.samestat(os.fstat(fd), tmp_path.stat()))

    monkeypatch.setattr(os, "fsync", sync)
    disk.sync_folder(tmp_path)
    assert synced == [True]
