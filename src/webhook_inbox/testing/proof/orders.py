"""Choose other orders of some events than that in which they are given."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice, permutations

from webhook_inbox.protocol.recording import Item

_EXHAUSTIVE_EVENTS = 6


def other_orders(items: Sequence[Item], chance: random.Random, orders_max: int) -> Iterator[list[Item]]:
    """
    Give other orders of *items* which the endpoints do not exclude by ``order_by``, those with the fewest exchanges
    first.

    Args:
        chance: Chooses where there are more than *orders_max*.
    """
    if len(items) <= _EXHAUSTIVE_EVENTS:
        every = sorted(permutations(range(len(items))), key=_exchanges)[1:]
        orders: Iterator[Sequence[int]] = iter(every)
        if len(every) > orders_max:
            half = orders_max // 2
            orders = iter([*every[:half], *chance.sample(every[half:], orders_max - half)])
    else:
        places = range(len(items))
        orders = (chance.sample(places, len(places)) for _ in range(orders_max))
    ordered = ([items[place] for place in order] for order in orders)
    return islice((order for order in ordered if is_free(order, items)), orders_max)


def is_free(order: Sequence[Item], items: Sequence[Item]) -> bool:
    """Say whether *order* leaves the events of each order key as they are in *items*."""
    for key in {item.arrival.order_key for item in order} - {None}:
        places = [items.index(item) for item in order if item.arrival.order_key == key]
        if places != sorted(places):
            return False
    return True


def _exchanges(order: Sequence[int]) -> tuple[int, Sequence[int]]:
    """Count the pairs of *order* that are the other way round."""
    return sum(a > b for place, a in enumerate(order) for b in order[place + 1 :]), order
