"""A local environment for a test: the real programs on this machine, and every way of talking to them."""

import base64
import http.client
import json
import os
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ed25519

ISSUER = "file:///etc/erun/mcp-auth/desktopid.pub"
ACCEPT = "application/json, text/event-stream"


def await_that(what, probe, seconds=10, every=0.05):
    """Returns the first true answer of a probe; says what was waited for, and the last answer, when time is up."""
    until, last = time.monotonic() + seconds, None
    while time.monotonic() < until:
        last = probe()
        if last:
            return last
        time.sleep(every)
    raise AssertionError(f"waited {seconds} s for {what}; last: {last!r}")


def b64(data):
    if isinstance(data, dict):
        data = json.dumps(data).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def alive(pid):
    """Whether a process lives; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


class Refused(Exception):
    """A tool call that was refused, in either of the two envelopes; `code` and `path` are the machine's part."""

    def __init__(self, data):
        super().__init__(json.dumps(data))
        self.data = data
        self.code = data.get("errorCode")
        self.path = (data.get("details") or {}).get("path")
        self.text = data.get("message") or data.get("error") or ""


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode(errors="replace")

    @property
    def json(self):
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return self.events[-1]
        return json.loads(self.body)

    @property
    def events(self):
        return [json.loads(line[5:]) for line in self.text.splitlines() if line.startswith("data:") and line[5:].strip()]

    @property
    def session(self):
        return self.headers.get("mcp-session-id")


def outcome(message):
    """Returns the structured result of a tools/call, or raises what refused it."""
    if "error" in message:
        raise Refused({**message["error"].get("data", {}), "rpc": message["error"]["code"]})
    result = message["result"]
    if result.get("isError"):
        raise Refused(json.loads(result["content"][0]["text"]))
    return result["structuredContent"]


class Local:
    """One `cuddy local up`, with a home and a workspace of its own."""

    def __init__(self, folder, name="dev"):
        self.folder, self.name = Path(folder), name
        self.config, self.workspace = self.folder / "config", self.folder / "workspace"
        self.config.mkdir(parents=True, exist_ok=True)
        self.workspace.mkdir(exist_ok=True)
        self.env = {**os.environ, "XDG_CONFIG_HOME": str(self.config), "KUBECONFIG": str(self.folder / "none")}
        self.cuddy("key", "create")
        self.port = None

    # The programs.

    def cuddy(self, *args, check=True, timeout=30, stdin=None):
        program = os.path.join(os.environ["CUDDY_BIN"], "cuddy")
        done = subprocess.run([program, *args], input=stdin, capture_output=True, text=True, timeout=timeout, env=self.env)
        if check and done.returncode != 0:
            raise AssertionError(f"cuddy {' '.join(args)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *args, **kwargs):
        program = os.path.join(os.environ["CUDDY_BIN"], "cuddy")
        return subprocess.Popen([program, *args], env=self.env, **kwargs)

    def up(self):
        # The first free range of the default is shared with everyone on the machine; port 0 is not.
        self.cuddy("local", "up", "--workspace", str(self.workspace), "--name", self.name, "--port", "0", "--detach")
        self.port = json.loads(self.state_file.read_text())["localPort"]
        return self

    def down(self):
        self.cuddy("local", "down", "--name", self.name, check=False)

    def end(self):
        """Ends it, and what a broken one left behind, so that one failure is not the next one's."""
        self.down()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    @property
    def state_file(self):
        return self.config / "erun" / "portforward" / "mcp" / "local" / f"{self.name}.json"

    def processes(self, word=""):
        """The ids of live processes that belong to this environment: by program, folder, command line or variables."""
        mine, marker = {}, str(self.folder).encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid() or not alive(entry.name):
                continue
            try:
                seen = (entry / "cmdline").read_bytes()
                command = seen.replace(b"\0", b" ").decode(errors="replace")
                seen += (entry / "environ").read_bytes()
                for link in ("cwd", "exe"):
                    seen += os.fsencode(os.readlink(entry / link))
            except OSError:
                continue
            if marker in seen and word in command:
                mine[int(entry.name)] = command
        return mine

    # Bearers.

    @property
    def key(self):
        lines = (self.config / "erun" / "identity" / "desktopid.key").read_text().splitlines()
        seed = base64.b64decode("".join(lines[1:-1])).split(b"\x04\x22\x04\x20", 1)[1][:32]
        return ed25519.Ed25519PrivateKey.from_private_bytes(seed)

    @property
    def public_pem(self):
        return (self.config / "erun" / "identity" / "desktopid.pub").read_bytes()

    def claims(self, **changes):
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": f"erun-mcp:local/{self.name}", "iat": now, "exp": now + 300, **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, header=None, key=None, **changes):
        head = b64(header or {"alg": "EdDSA", "typ": "JWT"})
        signed = f"{head}.{b64(self.claims(**changes))}"
        return f"{signed}.{b64((key or self.key).sign(signed.encode()))}"

    # HTTP.

    def request(self, method="POST", body=b"", headers=None, token=True, path="/mcp", timeout=30):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            full = {"Accept": ACCEPT, "Content-Type": "application/json"}
            if token:
                full["Authorization"] = f"Bearer {self.token() if token is True else token}"
            full.update(headers or {})
            if isinstance(body, (dict, list)):
                body = json.dumps(body).encode()
            connection.request(method, path, body or None, {k: v for k, v in full.items() if v is not None})
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def raw(self, data, seconds=5):
        """Sends bytes and returns all that comes back until the other side closes, or a moment passes in silence."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as stream:
            stream.sendall(data)
            return read_answer(stream)

    def head(self, *lines, token=True, method="POST", host=None):
        """The head of a request, without a body."""
        out = [f"{method} /mcp HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}", f"Accept: {ACCEPT}",
               "Content-Type: application/json"]
        if token:
            out.append(f"Authorization: Bearer {self.token() if token is True else token}")
        return ("\r\n".join([*out, *lines]) + "\r\n\r\n").encode()

    def rpc(self, method, params=None, id=1, session=None, headers=None, **kwargs):
        body = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            body["id"] = id
        if params is not None:
            body["params"] = params
        extra = {**({"Mcp-Session-Id": session} if session else {}), **(headers or {})}
        return self.request(body=body, headers=extra, **kwargs)

    def initialize(self, **changes):
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}, **changes}
        reply = self.rpc("initialize", params)
        assert reply.status == 200, reply.text
        return reply

    def tool(self, name, arguments=None, **kwargs):
        """A tools/call as it is; `call` is the one that unwraps."""
        params = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments
        return self.rpc("tools/call", params, **kwargs)

    def call(self, tool, /, timeout=60, **arguments):
        reply = self.tool(tool, arguments, timeout=timeout)
        assert reply.status == 200, (reply.status, reply.text)
        return outcome(reply.json)

    def sh(self, script, **arguments):
        return self.call("exec_raw", argv=["sh", "-c", script], **arguments)

    def job(self, script, **arguments):
        """Starts a job with a name of its own and returns its handle."""
        arguments.setdefault("name", f"job-{uuid.uuid4().hex[:8]}")
        started = self.call("exec_raw", argv=["sh", "-c", script], wait=False, **arguments)
        assert started["state"] == "running" and started["executed"] is True and started["wait"] is False
        return started["jobId"]

    def status(self, job):
        return self.call("exec_job_status", id=job)["job"]

    def finish(self, job, seconds=20):
        return self.call("exec_job_await", id=job, timeoutSeconds=seconds)["job"]


def read_answer(stream):
    """Reads one HTTP answer from a socket: status and the rest as text; an empty status when nothing came."""
    data = b""
    try:
        while chunk := stream.recv(65536):
            data += chunk
            if b"\r\n\r\n" in data:
                head, _, body = data.partition(b"\r\n\r\n")
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:") and len(body) >= int(line.split(b":")[1]):
                        return data.decode(errors="replace")
    except (TimeoutError, ConnectionResetError, BrokenPipeError):
        pass
    return data.decode(errors="replace")


def status_of(answer):
    return int(answer.split(" ", 2)[1]) if answer.startswith("HTTP/1.1 ") else None
