"""A language model's agent loop: the model writes Python, the sandbox runs it, tools are functions of the host.

The model here is a script, so that the example runs anywhere; put your own in its place. What it
writes is not trusted: it can call the tools and nothing else of this machine.
"""

import asyncio

import brumate

tools = brumate.CallbackRegistry()

STOCK = {"apples": 3, "pears": 12, "plums": 0}


@tools.callback(description="How many pieces of a fruit are in stock")
async def stock(fruit: str) -> int:
    await asyncio.sleep(0.01)  # a database, say
    return STOCK[fruit]


@tools.callback(description="Orders pieces of a fruit; answers the order's number")
def order(fruit: str, pieces: int) -> int:
    STOCK[fruit] += pieces
    return 1000 + pieces


def model(history: list[str]):
    """The next piece of code, given what the last one led to; None when it is done."""
    replies = [
        # Names a fruit that is not there: the tool's KeyError comes back to the model.
        "counts = {f: await stock(f) for f in ('apples', 'pears', 'cherries')}",
        # Asks for everything at once; the session still has its imports and variables.
        "import asyncio\n"
        "fruit = ('apples', 'pears', 'plums')\n"
        "counts = dict(zip(fruit, await asyncio.gather(*(stock(f) for f in fruit))))\n"
        "print(counts)",
        # Loops for ever by mistake: stopped, and the session goes on.
        "while min(counts.values()) < 10: pass",
        "orders = {f: await order(fruit=f, pieces=10 - n) for f, n in counts.items() if n < 10}\n"
        "result = {'ordered': orders, 'stock': {f: await stock(f) for f in counts}}",
    ]
    return replies[len(history)] if len(history) < len(replies) else None


async def main() -> None:
    limits = brumate.ResourceLimits(execution_timeout_ms=500, max_memory_bytes=64 << 20)
    history: list[str] = []
    with brumate.Session(callbacks=tools, resource_limits=limits, on_timeout="interrupt") as session:
        while (code := model(history)) is not None:
            print(">>>", code.replace("\n", "\n... "))
            try:
                done = await session.execute_async(code)
                seen = done.stdout or f"{done.result}\n"
            except brumate.BrumateError as error:  # the model is told what went wrong
                seen = str(error).splitlines()[-1] + "\n"
            print(seen, end="")
            history.append(seen)
    print("answer:", done.result)


asyncio.run(main())
