"""What the idle programs of one pod hold: PSS out of smaps_rollup, read from the node."""

import os
import time

from place import ENVIRONMENTS, await_true, document


def processes(pod_uid):
    """Yields (pid, program) of a pod's processes, found by the pod's UID in their cgroup."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup") as cgroup, open(f"/proc/{pid}/cmdline", "rb") as cmdline:
                if pod_uid in cgroup.read().replace("_", "-"):
                    yield int(pid), cmdline.read().replace(b"\0", b" ").decode().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue


def pss_mib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pss:")) / 1024


def run(api, user, results):
    api.post(ENVIRONMENTS, document("quiet"))
    thing = await_true(api, "quiet", "Ready")
    sidecar, runtime = [], []
    for _ in range(5):
        time.sleep(2)  # five looks, two seconds apart: the figure is about rest, not about start-up
        found = list(processes(thing["status"]["podUID"]))
        sidecar.append(sum(pss_mib(pid) for pid, name in found if "cuddy-sidecar" in name))
        runtime.append(sum(pss_mib(pid) for pid, name in found if "cuddy-host" in name))
    results.add("PSS of the idle sidecar", sidecar, "MiB", lambda m: 0 < m <= 12, "at most 12")
    results.add("PSS of init and host", runtime, "MiB", lambda m: 0 < m <= 6, "at most 6")
