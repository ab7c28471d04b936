# SPDX-License-Identifier: Apache-2.0
"""What agents saw with their own control plane, with ours, and with both over one Redis, side by side: results.py THEIRS OURS
BOTH, files of agents.py. Fails for what ours did not do, and for a difference that is not named here."""
import json
import sys

WANTED = {
    "two agents register": ["node:a", "node:b"],
    "an alias that is taken": "conflict",
    "agents find each other": ["node:a", "node:b"],
    "they are listed": ["node:a", "node:b"],
    "they connect": True,
    "the other side is connected": True,
    "they read each other": [True, True],
    "they read without a control plane": [True, True],
    "they beat after its restart": ["ok", "ok"],
    "their time ran out during an outage": True,
    "they are still connected": [True, True],
    "they still read each other": [True, True],
    "one with a name that is made up": ["agent-1", True, True],
    "whom it named sees it leave": True,
    "who named it sees it die": True,
    "it comes back": "node:b",
    "they are connected again": True,
    "it reads who named it": True,
    "it comes back unnoticed": True,
    "who named it sees it leave": True,
    "left for ever": [],
}

# Where the original differs, and why; where both are there, it depends on which of them was asked: it is as with one of the two.
DIFFERENT = {
    "whom it named sees it leave": "a leaving agent deletes the list by which the original would know whom to tell",
    "who named it sees it die": "the end of the 60 seconds is told to nobody",
    "they are connected again": "nobody is asked to connect to an agent that came back: at best it finds what its former self was sent",
    "it reads who named it": "as the one above",
    "it comes back unnoticed": "as the two above",
    "who named it sees it leave": "without a scope it tells an inbox that nobody listens to",
    "left for ever": "nothing ends what a dead agent left",
}

# What ours does for the agents of both, wherever they are registered.
OF_BOTH = {"who named it sees it die", "they are connected again", "it reads who named it", "it comes back unnoticed"}


def main():
    seen = []
    for name in sys.argv[1:]:
        with open(name, encoding="utf-8") as lines:
            seen.append(dict(json.loads(line) for line in lines))
    n_wrong = 0
    print(f"{'':46}{'theirs':28}{'ours':28}both")
    for scope in "team", "no scope":
        for step, wanted in WANTED.items():
            theirs, ours, both = (s.get(f"{scope}: {step}", "not reached") for s in seen)
            allowed = (wanted,) if step in OF_BOTH else (wanted, theirs)
            wrong = ours != wanted or (step not in DIFFERENT and theirs != wanted) or both not in allowed
            n_wrong += wrong
            why = "WRONG" if wrong else "" if theirs == both == wanted else DIFFERENT[step]
            row = [json.dumps(v) for v in (theirs, ours, both)]
            print(f"{scope + ': ' + step:46}{row[0]:28}{row[1]:28}{row[2]:28}{why}")
    return n_wrong != 0


sys.exit(main())
