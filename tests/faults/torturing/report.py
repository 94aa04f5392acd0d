"""What a person reads at the end: the table, and each offending message's story."""
import collections
import datetime
import json
import os

from .judge import ms

STORIES = 8  # printed; all of them are kept in the folder


def quantiles(values):
    if not values:
        return "-"
    values = sorted(values)

    def at(q):
        return values[min(int(q * len(values)), len(values) - 1)]
    return f"p50 {at(0.5):.0f}, p99 {at(0.99):.0f}, max {values[-1]:.0f} ms ({len(values)})"


def minutes(ledger):
    at = [s["at"] for s in ledger.sent.values()]
    return f"{(max(at) - min(at)) / 60000:.1f}" if at else "0"


def clock(at):
    return datetime.datetime.fromtimestamp(at / 1000, datetime.timezone.utc).strftime("%H:%M:%S.%f")[:-3]


def summary(judge, ledger, promises, asked):
    strikes = collections.Counter(f["kind"] for f in ledger.faults)
    c = judge.counts
    never = [kind for kind in asked if not strikes[kind]]
    lines = ["", "faults struck: " + (", ".join(f"{k} {n}" for k, n in sorted(strikes.items())) or "none")]
    if never:
        lines.append(f"NEVER STRUCK, the run was too short for them: {', '.join(never)}")
    took = [t["ms"] for t in ledger.takeovers if t["ms"] is not None]
    rows = [
        ("messages", f"{len(ledger.sent)} sent, {c['confirmed']} confirmed, {c['succeeded at once']} succeeded at once"
                     f" (from the first to the last {minutes(ledger)} min)"),
        ("tasks", f"{c['tasks']}: " + ", ".join(f"{n} {k[6:]}" for k, n in sorted(c.items()) if k[:6] == "tasks ")),
        ("retries", f"{c['retries']} attempts, {c['deliveries of retries']} deliveries"),
        ("cancels", f"{c['cancels answered']} answered, {c['cancels refused']} refused, "
                    f"{c['cancels in doubt']} in doubt"),
        ("duplicates", f"{c['duplicates']}" + (", near: " + ", ".join(
            f"{k} {n}" for k, n in judge.duplicate_causes.most_common()) if c["duplicates"] else "")),
        ("redelivered", f"{c['redelivered by the broker']} by the broker, of what a consumer had not acked"),
        ("identity", f"{c['twins']} twins, {c['chained']} handled messages whose headers were copied, {c['next']} messages with them"
                     f" ({c['children']} children)"),
        ("parked copies", f"{len(ledger.moved)} moved, {c['moved']} of them failed ({c['moved children']} children)"),
        ("late, no fault", quantiles(judge.late)),
        ("late, near one", quantiles(judge.late_faulty)),
        ("takeovers", quantiles(took) if took else "-"),
    ]
    rows += [("", f"{len(numbers)} {name}") for name, numbers in sorted(judge.notes.items()) if name != "duplicates"]
    if ledger.starved:
        rows.append(("", f"the harness itself was held up {len(ledger.starved)} times, "
                         f"{max(b - a for a, b in ledger.starved):.0f} ms at most: this machine has too much to do"))
    lines += [f"  {name:<15} {text}" for name, text in rows]
    broken = collections.Counter(o.promise for o in judge.offences)
    lines.append("promises")
    for name, text in promises:
        lines.append(f"  {name:<15} {'held' if not broken[name] else f'BROKEN {broken[name]} times'}   {text}")
    return "\n".join(lines)


def story(judge, ledger, number, sidecars):
    """Everything that is known of a message, by time."""
    lines = []
    sent = ledger.sent.get(number)
    if sent:
        lines.append((sent["at"], "producer", f"sent to {sent['queue']}; confirmed "
                      + (clock(sent["confirmed"]) if sent["confirmed"] else "never")))
    for s in ledger.seen.get(number, []):
        lines.append((s["at"], "consumer", f"sees attempt {s['attempt']} of {s['retry_id']}"
                      + (", redelivered" if s["redelivered"] else "")))
    for w in ledger.words.get(number, []):
        lines.append((w["at"], "consumer", f"says {w['word']} by {w['way']} about attempt {w['attempt']}"
                      + (f", retry-after {w['after']} s" if w["after"] else "")
                      + ("" if w["confirmed"] else " (in doubt)")))
    ids = {str(t["retry_id"]) for t in judge.by_number.get(number, [])}
    for task in judge.by_number.get(number, []):
        lines.append((ms(task["created_at"]), "database", f"task {task['retry_id']} begins, shard {task['shard']}"))
        if task["finished_at"]:
            lines.append((ms(task["finished_at"]), "database", f"{task['state']} by {task['finished_by']}: "
                                                               f"{task['last_error']}"))
        else:
            lines.append((ms(task["created_at"]), "database", f"is {task['state']} at the end, attempt "
                          f"{task['attempt']}, next due {task['next_due_at']}, node {task['node']}"))
    for (retry_id, attempt), row in judge.history.items():
        if retry_id in ids:
            lines.append((ms(row["due_at"]), "database", f"attempt {attempt} due; published {row['published_at']}, "
                                                         f"{row['outcome']} {row['outcome_at']}, node {row['node']}"))
    for retry_id, cancel in ledger.cancels.items():
        if cancel["number"] == number:
            lines.append((cancel["asked"], "cancel", f"asked for {retry_id}"))
            lines.append((cancel["answered"], "cancel", f"exit code {cancel['code']}"))
    begin, end = min((at for at, *_ in lines), default=0) - 3000, max((at for at, *_ in lines), default=0) + 3000
    for fault in ledger.faults:
        if fault["begin"] <= end and (fault["end"] or end) >= begin:
            lines.append((fault["begin"], "FAULT", f"{fault['kind']} on {fault['target']}, {fault['detail']}; healed "
                          + (clock(fault["end"]) if fault["end"] else "never")))
    text = [f"  {clock(at)} {who:<9} {what}" for at, who, what in sorted(lines)]
    for sidecar in sidecars:
        text += [f"  log {sidecar.name}: {line}" for line in sidecar.log().splitlines() if any(i in line for i in ids)]
    return "\n".join(text)


def keep(folder, judge, ledger, sidecars):
    """What is needed to understand a failure, beside the ledger and the logs that lie there already."""
    numbers = sorted({o.number for o in judge.offences})
    with open(os.path.join(folder, "offences.txt"), "w", encoding="utf-8") as out:
        for number in numbers:
            out.write(block(judge, ledger, number, sidecars) + "\n\n")
    with open(os.path.join(folder, "notes.txt"), "w", encoding="utf-8") as out:
        for what, told in judge.notes.items():
            for number in dict.fromkeys(n for n in told if n >= 0):
                out.write(f"{what}: message {number}\n{story(judge, ledger, number, sidecars)}\n\n")
    rows = {"tasks": [t for n in numbers for t in judge.by_number.get(n, [])]}
    ids = {str(t["retry_id"]) for t in rows["tasks"]}
    rows["history"] = [row for (retry_id, _), row in sorted(judge.history.items()) if retry_id in ids]
    with open(os.path.join(folder, "rows.json"), "w", encoding="utf-8") as out:
        json.dump(rows, out, indent=1, default=str)


def block(judge, ledger, number, sidecars):
    whats = [f"{o.promise}: {o.text}" for o in judge.offences if o.number == number]
    return f"message {number}\n  " + "\n  ".join(whats) + "\n" + story(judge, ledger, number, sidecars)


def stories(judge, ledger, sidecars):
    numbers = list(dict.fromkeys(o.number for o in judge.offences))
    text = [block(judge, ledger, number, sidecars) for number in numbers[:STORIES]]
    if len(numbers) > STORIES:
        text.append(f"... and {len(numbers) - STORIES} messages more: offences.txt")
    return "\n\n".join(text)
