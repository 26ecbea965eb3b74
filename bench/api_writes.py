"""How often the operator writes: out of the API server's audit log."""

import json
import os
import time

from place import ENVIRONMENTS, NAMESPACE, await_true, document

LOG = os.path.join(os.environ.get("CUDDY_CLUSTER_DIR", os.path.join(os.path.dirname(__file__), "..", "target", "cluster")), "log", "audit.log")
WRITES = {"create", "update", "patch", "delete"}
ONE_BY_ONE = 10
MANY = int(os.environ.get("BENCH_STOPPED", "500"))
QUIET_SECONDS = int(os.environ.get("BENCH_QUIET_SECONDS", "600"))


def writes(since):
    """Returns the operator's writes after a byte of the log, but for Events and Lease renewals, as (verb, resource, name)."""
    found = []
    with open(LOG) as file:
        file.seek(since)
        for line in file:
            event = json.loads(line)
            ref = event.get("objectRef", {})
            if event["stage"] != "ResponseComplete" or event["verb"] not in WRITES or ref.get("resource") in ("events", "leases"):
                continue
            if event["user"]["username"].startswith("system:serviceaccount:cuddy-system:"):
                found.append((event["verb"], ref.get("resource"), ref.get("subresource", ""), ref.get("name", ""), ref.get("namespace", "")))
    return found


def run(api, user, results):
    counts = []
    for i in range(ONE_BY_ONE):
        name, since = f"w{i}", os.path.getsize(LOG)
        api.post(ENVIRONMENTS, document(name))
        await_true(api, name, "Ready")
        time.sleep(1)  # a write that follows Ready at once is counted too
        mine = [w for w in writes(since) if w[4] == NAMESPACE and w[3].startswith(name)]
        counts.append(len(mine))
        if i == 0:
            print("   " + ", ".join(f"{w[0]} {w[1]}{'/' + w[2] if w[2] else ''}" for w in mine))
        api.delete(f"{ENVIRONMENTS}/{name}")
    results.add("API writes per Environment until Ready, Events apart", counts, "writes", lambda m: m <= 7, "at most 7")

    for i in range(MANY):
        api.post(ENVIRONMENTS, document(f"s{i:03}", mode="Stopped"))
    until = time.monotonic() + 600
    while time.monotonic() < until:
        items = api.get(ENVIRONMENTS)["items"]
        stopped = [e for e in items if e["metadata"]["name"].startswith("s") and e.get("status", {}).get("observedGeneration")]
        if len([e for e in stopped if e["metadata"]["name"][1:].isdigit()]) >= MANY:
            break
        time.sleep(1)
    time.sleep(5)
    since = os.path.getsize(LOG)
    time.sleep(QUIET_SECONDS)
    mine = [w for w in writes(since) if w[4] == NAMESPACE]
    # An aim is about the time it names: a shorter look is shown without a verdict.
    whole = MANY >= 500 and QUIET_SECONDS >= 600
    results.add(f"API writes by {MANY} stopped Environments in {QUIET_SECONDS} s, Leases apart", [len(mine)], "writes",
                (lambda m: m == 0) if whole else None, "0")
    for i in range(MANY):
        api.delete(f"{ENVIRONMENTS}/s{i:03}")
