"""Modes of coroutines hold while these run, not while others of their loop do."""

import asyncio

import pytest

import rushlight as rl


async def watch(steps):
    """Whether operations are recorded, asked between pauses."""
    seen = []
    for _ in range(steps):
        seen.append(rl.is_grad_enabled())
        await asyncio.sleep(0)
    return seen


@pytest.mark.parametrize("mode", [rl.no_grad, rl.inference_mode])
def test_a_decorated_coroutine_leaves_the_others_alone(mode):
    async def both():
        return await asyncio.gather(mode()(watch)(4), watch(6))

    assert asyncio.run(both()) == [[False] * 4, [True] * 6]
    assert rl.is_grad_enabled()


def test_a_decorated_coroutine_is_cancelled_inside_of_its_mode():
    seen = []

    @rl.no_grad()
    async def waits():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(rl.is_grad_enabled())
            raise

    async def cancel():
        task = asyncio.create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return rl.is_grad_enabled()

    assert asyncio.run(cancel())
    assert seen == [False]


def test_errors_and_results_come_through():
    @rl.no_grad()
    async def fails():
        await asyncio.sleep(0)
        raise ValueError("its own")

    async def catch():
        with pytest.raises(ValueError, match="its own"):
            await fails()
        return await asyncio.wait_for(rl.no_grad()(watch)(2), 10)

    assert asyncio.run(catch()) == [False, False]
