"""The order of contenders in the rounds of a comparison.

What a GPU did before a call is in its clock: a step of a layer of experts in 8 bits took 5 % longer right behind one in 16 bits than first in
a round. Rotating the contenders gives each one the same neighbour in every round.
"""


def in_turn(contenders, turn):
    """The contenders in the order of a round. Over as many rounds as there are contenders, or twice as many where their number is odd, each
    comes at each place, and right behind each other one, equally often (a Williams design)."""
    count = len(contenders)
    zigzag = [-(at // 2) if at % 2 == 0 else (at + 1) // 2 for at in range(count)]  # 0, 1, -1, 2, -2, ...
    backwards = count % 2 == 1 and turn // count % 2 == 1
    return [contenders[(place + turn) % count] for place in (reversed(zigzag) if backwards else zigzag)]
