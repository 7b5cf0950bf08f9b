"""Main loop of a worker: requests are lines of JSON on standard input; replies go to the original standard
output.

``python -P -m triten.tests.fuzz.child CAMPAIGN``. A case's own output goes to standard error, which the
parent keeps for the stack of a crash.
"""

import faulthandler
import itertools
import json
import os
import random
import sys
import traceback
from typing import Any, TextIO

from .campaign import Campaign, Finding, Outcome, Verdict
from .campaigns import campaign_named

MAX_CANDIDATES = 400
DEEPEST = 6


def as_json(outcome: Outcome) -> Any:
    """Return an outcome in the form that `outcome_of` reads."""
    return outcome.value if isinstance(outcome, Verdict) else [outcome.kind, outcome.message]


def outcome_of(answer: Any) -> Outcome:
    """Return the outcome that `as_json` wrote."""
    return Verdict(answer) if isinstance(answer, str) else Finding(*answer)


def run(campaign: Campaign, case: Any, *, again: bool = False) -> Outcome:
    """Run a case and return its outcome; an exception that leaves the fuzz target is a finding."""
    try:
        return campaign.replay(case) if again else campaign.run(case)
    except Exception as error:  # whatever it is, it is a finding
        frames = traceback.extract_tb(error.__traceback__)[-DEEPEST:]
        where = " < ".join(f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in reversed(frames))
        return Finding("inner error", f"{type(error).__name__}: {error} [{where}]")


def answer(campaign: Campaign, request: Any) -> Any:
    match request["do"]:
        case "try":
            case = campaign.draw(random.Random(request["seed"]))
            outcome = run(campaign, case)
            return {
                "outcome": as_json(outcome),
                "case": case if isinstance(outcome, Finding) else None,
            }
        case "draw":
            return campaign.draw(random.Random(request["seed"]))
        case "run":
            return as_json(run(campaign, request["case"]))
        case "smaller":
            return list(itertools.islice(campaign.smaller(request["case"]), MAX_CANDIDATES))
        case "describe":
            return campaign.describe(request["case"])
        case "record":
            return campaign.record(request["case"])
        case other:
            raise ValueError(
                f"a request is one of try, draw, run, smaller, describe, record; {other!r} given"
            )


def main(name: str) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    campaign = campaign_named(name)
    campaign.prepare()
    if campaign.forks:
        while (pid := os.fork()) != 0:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if status == 0:
                return
            print(json.dumps({"died": status}), file=replies, flush=True)
    serve(campaign, replies)


def serve(campaign: Campaign, replies: TextIO) -> None:
    """Answer requests until there are no more."""
    if campaign.memory_limit:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (campaign.memory_limit, campaign.memory_limit))
    print(json.dumps({"ready": os.getpid()}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        # Before the parent loses its patience, so that it finds the stack.
        faulthandler.dump_traceback_later(request["limit"] * 0.9)
        try:
            reply = {"answer": answer(campaign, request)}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}\n{traceback.format_exc()}"}
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
