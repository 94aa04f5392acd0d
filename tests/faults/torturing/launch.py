"""What tests/faults/torture and tests/cluster have in common: options, and a run from its begin to its verdict."""
import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

import starting

from . import report
from .run import PROMISES

VERDICTS = {0: "all promises held", 1: "A PROMISE WAS BROKEN", 130: "cleaned up"}


def parser(what, epilog, instances):
    made = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter, description=what, epilog=epilog +
                                   "\nexit code: 0 all promises were kept, 1 one was broken (the output names a folder with the details),"
                                   "\n2 the run could not be made, 130 interrupted")
    made.add_argument("--instances", type=int, default=instances, help=f"sidecars ({instances})")
    made.add_argument("--rate", type=float, default=40, metavar="MSG/S", help="messages a second, in bursts (40)")
    made.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1_000_000), help="of the messages and the faults; else drawn, and printed")
    made.add_argument("--rung", metavar="PATH", help="the program; else build/release/rung, else build/dev/rung")
    made.add_argument("--keep", metavar="DIR", help="keep ledger and logs there, whatever comes out")
    return made


def parse(made):
    o = made.parse_args()
    candidates = [o.rung] if o.rung else [starting.ROOT / "build" / kind / "rung" for kind in ("release", "dev")]
    o.rung = next((os.path.realpath(c) for c in candidates if os.access(c, os.X_OK)), None)
    if o.rung is None:
        made.error(f"no program at {' or '.join(map(str, candidates))}: build it, or --rung PATH")
    if o.instances < 1 or o.rate <= 0:
        made.error("--instances and --rate must be above 0")
    return o


def interrupted(*_):
    raise KeyboardInterrupt


def perform(name, o, make_run, plan):
    """make_run(folder, say): a Run. Returns the exit code."""
    began = time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)

    def say(text):
        print(f"[{name} {time.monotonic() - began:5.1f} s] {text}", flush=True)

    folder = os.path.join(os.path.realpath(o.keep), name) if o.keep else tempfile.mkdtemp(prefix="rung-t-")
    os.makedirs(folder, exist_ok=True)
    say(f"seed {o.seed}, {o.instances} sidecars of {o.rung}, faults: {', '.join(o.faults) or 'none'}")
    run, code = make_run(folder, say), 2
    try:
        run.begin(plan)
        run.strike()
        run.settle()
        run.sidecars_end()
        judge = run.judge()
        print(report.summary(judge, run.ledger, PROMISES, o.faults))
        for line in run.more:
            print(line)
        code = 1 if judge.offences else 0
        if code or o.keep:
            report.keep(folder, judge, run.ledger, run.world.sidecars)
        if code:
            print("\n" + report.stories(judge, run.ledger, run.world.sidecars))
    except KeyboardInterrupt:
        say("interrupted")
        code = 130
    except Exception as error:
        say(f"the run could not be made: {error!r} {run.faults.errors if run.faults else ''}")
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        run.close()
        kept = o.keep or code in (1, 2)
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    say(VERDICTS.get(code, "no verdict") + (f"; everything lies in {folder}" if kept else ""))
    return code


def leave(code):
    """Threads that hang in a server's call must not keep the run from ending."""
    sys.stdout.flush()
    os._exit(code)
