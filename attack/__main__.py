"""The campaign: cases of every kind until the time is up, and a table of what became of them.

    python -m attack [--seconds 1800] [--seed 0] [--kinds "predictions" …] [--cases N]

Each kind gets an equal share of the time, in a process of its own that is started again if it dies
(which is a fault). The seed of every fault is printed: `python -m attack --replay SEED --kinds
NAME` runs that case again. The last line is the table as JSON. Exits with 1 where there is a fault.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from attack.campaign import KINDS, attacked, attacked_in_a_process


def main() -> None:
    """Run the campaign."""
    parser = argparse.ArgumentParser(prog="attack", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10**9, help="of each kind, at the most")
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--replay", type=int, help="the number of one case")
    arguments = parser.parse_args()
    if arguments.replay is not None:
        name, number = arguments.kinds[0], arguments.replay
        print(attacked(name, arguments.seed, 1e9, number + 1, number))
        return
    share, lines, total = arguments.seconds / len(arguments.kinds), [], Counter[str]()
    for name in arguments.kinds:
        counts = attacked_in_a_process(name, arguments.seed, share, arguments.cases)
        total += counts
        lines.append((name, counts))
    print("\n| kind | tried | right | refused | failed |\n|---|---|---|---|---|")
    for name, counts in [*lines, ("all", total)]:
        figures = (counts.total(), counts["right"], counts["refused"], counts["failed"])
        print(f"| {name} | " + " | ".join(f"{one:,}" for one in figures) + " |")
    kinds = {name: dict(counts) for name, counts in lines}
    print(json.dumps({"seconds": arguments.seconds, "seed": arguments.seed, "kinds": kinds}))
    sys.exit(total["failed"] > 0)


if __name__ == "__main__":
    main()
