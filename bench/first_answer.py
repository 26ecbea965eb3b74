"""From the creation of an Environment to the first tool answer, beside the same pod made by a bare client, in turn."""

import copy
import threading
import time

from mcp_call import Door, server_name
from place import CORE, ENVIRONMENTS, IMAGE, document, token

ROUNDS = 20


class Clock:
    """The local times at which a pod was first seen in a state, out of a watch."""

    def __init__(self, api, name):
        self.api, self.name, self.seen, self.pod = api, name, {}, None
        self.changed = threading.Condition()
        self.start = time.perf_counter()
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self):
        for kind, pod in self.api.watch(f"{CORE}/pods?fieldSelector=metadata.name={self.name}"):
            with self.changed:
                self.pod = pod
                self._mark("created")
                statuses = pod.get("status", {}).get("initContainerStatuses", []) + pod.get("status", {}).get("containerStatuses", [])
                running = {s["name"] for s in statuses if "running" in s["state"]}
                if "sidecar" in running:
                    self._mark("sidecar")
                if "runtime" in running or "main" in running:
                    self._mark("running")
                self.changed.notify_all()
            if kind == "DELETED":
                return

    def _mark(self, what):
        self.seen.setdefault(what, (time.perf_counter() - self.start) * 1000)

    def await_seen(self, what, seconds=120):
        with self.changed:
            if not self.changed.wait_for(lambda: what in self.seen and self.pod, seconds):
                raise SystemExit(f"{self.name}: not {what} in {seconds} s")
            return self.pod


def first_answer(clock, user, bearer, ca, uid, wanted):
    """Calls `version` until the wanted HTTP status comes; returns the time since the clock's start."""
    while True:
        address = (clock.pod or {}).get("status", {}).get("podIP")
        try:
            status, _ = Door(address, 17443, ca(), server_name(uid), timeout=2).call(bearer, "version", {})
            if status in wanted:
                return (time.perf_counter() - clock.start) * 1000
        except (OSError, TypeError, AttributeError, ValueError):
            pass
        time.sleep(0.005)


def ours(api, user, name):
    bearer = token(user, name)
    clock = Clock(api, name)
    uid = api.post(ENVIRONMENTS, document(name))["metadata"]["uid"]
    known = {}

    def ca():
        if "ca" not in known:
            known["ca"] = api.get(f"{ENVIRONMENTS}/{name}")["status"]["endpoint"]["caBundle"]
        return known["ca"]

    def ca_or_wait():
        try:
            return ca()
        except KeyError as missing:
            raise ValueError("no endpoint yet") from missing

    clock.await_seen("sidecar")
    known["up"] = first_answer(clock, user, bearer, ca_or_wait, uid, {200, 503})
    answered = first_answer(clock, user, bearer, ca_or_wait, uid, {200})
    return clock, answered, known["up"]


def bare(api, model, secret, claim, name):
    """Makes the rendered pod of an Environment again by hand: Secret, PVC and Pod, nothing that watches them."""
    for kind, thing in (("secrets", secret), ("persistentvolumeclaims", claim)):
        api.post(f"{CORE}/{kind}", thing)
    pod = copy.deepcopy(model)
    pod["metadata"] = {"name": name, "labels": {"bench": "bare"}}
    clock = Clock(api, name)
    clock.start = time.perf_counter()
    api.post(f"{CORE}/pods", pod)
    clock.await_seen("running")
    return clock


def renamed(thing, name, new):
    thing = copy.deepcopy(thing)
    thing["metadata"] = {"name": thing["metadata"]["name"].replace(name, new, 1)}
    thing.pop("status", None)
    thing.get("spec", {}).pop("volumeName", None)
    return thing


def plain(api, name):
    clock = Clock(api, name)
    clock.start = time.perf_counter()
    api.post(f"{CORE}/pods", {"metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "main", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "infinity"],
                        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}]}})
    clock.await_seen("running")
    return clock


def run(api, user, results):
    answers, created, started, gate, added, bares, plains = [], [], [], [], [], [], []
    for i in range(ROUNDS):
        name, again, single = f"e{i}", f"b{i}", f"p{i}"
        clock, answered, up = ours(api, user, name)
        uid = api.get(f"{ENVIRONMENTS}/{name}")["metadata"]["uid"]
        model = api.get(f"{CORE}/pods/{name}")
        secret = renamed(api.get(f"{CORE}/secrets/{name}-anchor"), name, again)
        claim = renamed(api.get(f"{CORE}/persistentvolumeclaims/{name}-workspace"), name, again)
        pod = strip(model, name, again)
        begun = time.perf_counter()
        other = bare(api, pod, secret, claim, again)
        ca = secret_text(secret, "ca.crt")
        reached = first_answer(other, user, token(user, name), lambda ca=ca: ca, uid, {200, 503})
        single_clock = plain(api, single)
        answers.append(answered)
        created.append(clock.seen["created"])
        started.append(up)
        gate.append(answered - up)
        bares.append(reached + (other.start - begun) * 1000)
        plains.append(single_clock.seen["running"])
        added.append(up - bares[-1])
        for path in (f"{ENVIRONMENTS}/{name}", f"{CORE}/pods/{again}", f"{CORE}/pods/{single}", f"{CORE}/secrets/{again}-anchor",
                     f"{CORE}/persistentvolumeclaims/{again}-workspace"):
            api.delete(path)
    results.add("apply to the first tool answer", answers, "ms")
    results.add("  of it, until the pod was created", created, "ms")
    results.add("  of it, until the sidecar answered at all", started, "ms")
    results.add("  of it, the gate: from then to the first tool answer", gate, "ms")
    results.add("the same pod by a bare client, until its sidecar answered", bares, "ms")
    results.add("ours on top of the bare client, the gate apart", added, "ms", lambda m: m <= 150, "at most 150")
    results.add("a plain pod of one container, until it ran", plains, "ms")


def secret_text(secret, key):
    import base64
    return base64.b64decode(secret["data"][key]).decode()


def strip(pod, name, new):
    """Returns the spec of a pod as a client would send it, its volumes pointing at the new objects."""
    spec = copy.deepcopy(pod["spec"])
    spec.pop("nodeName", None)
    for volume in spec["volumes"]:
        if "secret" in volume:
            volume["secret"]["secretName"] = volume["secret"]["secretName"].replace(name, new, 1)
        if "persistentVolumeClaim" in volume:
            volume["persistentVolumeClaim"]["claimName"] = volume["persistentVolumeClaim"]["claimName"].replace(name, new, 1)
    return {"spec": spec}
