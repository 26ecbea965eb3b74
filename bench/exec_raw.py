"""`exec_raw ["true"]` beside `kubectl exec -- true`, in turn."""

import subprocess
import time

from mcp_call import Door, server_name
from place import NAMESPACE, await_true, document, token, ENVIRONMENTS

ROUNDS = 20


def run(api, user, results):
    api.post(ENVIRONMENTS, document("speed"))
    thing = await_true(api, "speed", "Ready")
    endpoint, uid = thing["status"]["endpoint"], thing["metadata"]["uid"]
    bearer = token(user, "speed")
    door = Door(thing["status"]["podIP"], 17443, endpoint["caBundle"], server_name(uid))
    ours, theirs = [], []
    door.call(bearer, "exec_raw", {"argv": ["true"]})
    for _ in range(ROUNDS):
        start = time.perf_counter()
        status, answer = door.call(bearer, "exec_raw", {"argv": ["true"]})
        ours.append((time.perf_counter() - start) * 1000)
        assert status == 200 and answer["result"]["structuredContent"]["exit_code"] == 0, answer
        start = time.perf_counter()
        subprocess.run(["kubectl", "-n", NAMESPACE, "exec", "speed", "-c", "runtime", "--", "true"], check=True, capture_output=True)
        theirs.append((time.perf_counter() - start) * 1000)
    results.add('exec_raw ["true"], kept connection', ours, "ms")
    results.add("kubectl exec -- true", theirs, "ms")
    results.add("kubectl exec over exec_raw, pair by pair", [b / a for a, b in zip(ours, theirs)], "times",
                lambda m: m >= 20, "at least 20")
