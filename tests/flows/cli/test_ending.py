"""A signal that ends the process is heard before, in and after what hears it by itself."""

import os
import signal

import anyio
import pytest

from turnchart.flows.cli.ending import Ending


async def test_what_runs_is_cut_off() -> None:
    ending = Ending()
    async with ending.inside():
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep_forever()
    assert ending.heard == signal.SIGTERM


async def test_nothing_is_heard_of_a_run_that_just_ends() -> None:
    ending = Ending()
    async with ending.inside(), ending.lent():
        pass
    assert ending.heard == 0


async def test_who_takes_the_signals_gives_them_back() -> None:
    ending, taken = Ending(), list[int]()
    async with ending.inside():
        async with ending.lent():
            with anyio.open_signal_receiver(signal.SIGTERM) as signals:
                os.kill(os.getpid(), signal.SIGTERM)
                async for heard in signals:
                    taken.append(heard)
                    break
        assert (taken, ending.heard) == ([signal.SIGTERM], 0)
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep_forever()
    assert ending.heard == signal.SIGTERM


async def test_where_no_signal_ends_the_process_it_listens_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnchart.flows.cli.ending.ending_signals", list)
    async with Ending().inside(), anyio.create_task_group():
        pass
