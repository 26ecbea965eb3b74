"""`cuddy mcp proxy`: a stdio server for MCP clients that writes nothing but JSON-RPC."""

import asyncio
import json
import os
import queue
import socket
import subprocess
import threading
import time

import pytest

from local_kit import await_that, free_port, outcome


class Proxy:
    """The proxy as a client sees it: lines in, messages out; every line that comes out must be JSON-RPC."""

    def __init__(self, place, *args):
        self.process = place.start("mcp", "proxy", "--tenant", "local", "--environment", place.name, *args,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines, self.kept, self.errors = queue.Queue(), [], []
        threading.Thread(target=self.read, daemon=True).start()
        threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method, params=None, id=None):
        message = {"jsonrpc": "2.0", "method": method}
        if id is not None:
            message["id"] = id
        if params is not None:
            message["params"] = params
        self.write(json.dumps(message).encode() + b"\n")

    def call(self, id, tool, arguments=None, **more):
        self.send("tools/call", {"name": tool, "arguments": arguments or {}, **more}, id)

    def next(self, seconds=10):
        line = self.lines.get(timeout=seconds)
        assert line is not None, ("the proxy ended", self.errors)
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def answer(self, id, seconds=15):
        """Returns the answer with this id and keeps what comes before it."""
        for message in self.kept:
            if message.get("id") == id and "method" not in message:
                self.kept.remove(message)
                return message
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                message = self.next(max(0.05, until - time.monotonic()))
            except queue.Empty:
                break
            if message.get("id") == id and "method" not in message:
                return message
            self.kept.append(message)
        raise AssertionError(f"no answer to {id!r}; had {self.kept}; said {self.errors}")

    def handshake(self):
        self.send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}, "init")
        result = self.answer("init")["result"]
        self.send("notifications/initialized")
        return result

    def end(self, seconds=10):
        """Closes stdin and returns the exit code; all that still comes out must be JSON-RPC."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        code = self.process.wait(seconds)
        while (line := self.lines.get(timeout=5)) is not None:
            json.loads(line)
        return code


@pytest.fixture
def proxy(local):
    it = Proxy(local)
    yield it
    it.process.kill()
    it.process.wait()


def test_handshake_list_and_call(proxy):
    assert proxy.handshake()["capabilities"]["tools"] is not None
    proxy.send("tools/list", {}, 1)
    assert "exec_raw" in {tool["name"] for tool in proxy.answer(1)["result"]["tools"]}
    proxy.call("ü", "exec_raw", {"argv": ["echo", "hi"]})
    assert outcome(proxy.answer("ü"))["stdout"] == "hi\n"
    assert proxy.end() == 0


GARBAGE = [b"\n", b"   \n", b"garbage\n", b"{\n", b"[]\n", b"[{}]\n", b"null\n", b"5\n", b'"x"\n', b"\xff\xfe\x00\n", b"{}\n",
           b'{"jsonrpc":"2.0"}\n', b'{"jsonrpc":"2.0","id":{},"method":"ping"}\n', b'{"jsonrpc":"2.0","id":1,"result":{}}\n',
           b"\r\n", b"Content-Length: 5\r\n", b"[" * 200_000 + b"\n", b'{"jsonrpc":"2.0","method":"no/such"}\n',
           b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n', b'{"jsonrpc":"1.0","id":2,"method":"ping"}\n']


def test_garbage_is_answered_in_json_rpc_or_not_at_all_and_the_next_call_works(proxy):
    for number, line in enumerate(GARBAGE):
        proxy.write(line)
        proxy.call(f"after-{number}", "version")
        assert outcome(proxy.answer(f"after-{number}"))["build"], line[:50]
    assert all("error" in message for message in proxy.kept if "result" not in message and "method" not in message)
    proxy.send("ping", id="end")
    assert proxy.answer("end")["result"] == {}


def test_a_line_with_crlf_and_one_in_pieces_are_understood(proxy):
    proxy.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n')
    assert proxy.answer(1)["result"] == {}
    for byte in b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n':
        proxy.write(bytes([byte]))
    assert proxy.answer(2)["result"] == {}


def test_a_huge_line_is_refused_and_the_proxy_lives(proxy):
    for size in (3 << 20, 40 << 20):
        proxy.write(b'{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"name":"exec_raw","arguments":{"argv":["true"],"stdin":"')
        for _ in range(size >> 20):
            proxy.write(b"x" * (1 << 20))
        proxy.write(b'"}}}\n')
        proxy.send("ping", id=f"after-{size}")
        assert proxy.answer(f"after-{size}", 30)["result"] == {}
    peak = [line for line in open(f"/proc/{proxy.process.pid}/status") if line.startswith("VmHWM")][0]
    assert int(peak.split()[1]) < 300 << 10, peak


def test_an_unfinished_last_line_runs_nothing(local, proxy):
    proxy.handshake()
    proxy.write(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec_raw","arguments":{"argv":["touch","half"]}')
    assert proxy.end() == 0
    assert not (local.workspace / "half").exists()


def test_a_last_line_without_its_newline_is_no_crash(proxy):
    proxy.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert proxy.end() == 0


def test_ping_passes_while_a_call_runs(proxy):
    proxy.handshake()
    proxy.call(1, "exec_raw", {"argv": ["sleep", "2"]})
    proxy.send("ping", id=2)
    proxy.call(3, "version")
    began = time.monotonic()
    proxy.answer(2), proxy.answer(3)
    assert time.monotonic() - began < 1.5
    assert outcome(proxy.answer(1))["exit_code"] == 0


def test_twenty_five_calls_at_once_are_all_answered(proxy):
    """More than the endpoint takes at once: the proxy waits out 429."""
    for n in range(25):
        proxy.call(n, "exec_raw", {"argv": ["sh", "-c", f"sleep 0.3; echo {n}"]})
    for n in range(25):
        assert outcome(proxy.answer(n, 30))["stdout"] == f"{n}\n"


def test_a_cancel_kills_that_call_and_no_other(local, proxy):
    proxy.handshake()
    proxy.call(1, "exec_raw", {"argv": ["sleep", "51.5"]})
    proxy.call(2, "exec_raw", {"argv": ["sleep", "4.5"]})
    await_that("both run", lambda: local.processes("sleep 51.5") and local.processes("sleep 4.5"))
    proxy.send("notifications/cancelled", {"requestId": 1, "reason": "enough"})
    await_that("the first is dead", lambda: not local.processes("sleep 51.5"))
    assert local.processes("sleep 4.5")
    assert outcome(proxy.answer(2))["exit_code"] == 0


def test_two_proxies_with_the_same_ids_do_not_cancel_each_other(local, proxy):
    other = Proxy(local)
    try:
        proxy.call(1, "exec_raw", {"argv": ["sleep", "52.5"]})
        other.call(1, "exec_raw", {"argv": ["sleep", "3.5"]})
        await_that("both run", lambda: local.processes("sleep 52.5") and local.processes("sleep 3.5"))
        proxy.send("notifications/cancelled", {"requestId": 1})
        await_that("the first is dead", lambda: not local.processes("sleep 52.5"))
        assert outcome(other.answer(1))["exit_code"] == 0
    finally:
        other.process.kill()
        other.process.wait()


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_the_end_of_the_proxy_ends_its_calls(local, proxy, how):
    proxy.call(1, "exec_raw", {"argv": ["sleep", "53.5"]})
    await_that("it runs", lambda: local.processes("sleep 53.5"))
    getattr(proxy.process, how)()
    proxy.process.wait(10)
    await_that("it is dead", lambda: not local.processes("sleep 53.5"))


def test_at_the_end_of_its_input_the_proxy_still_answers_what_runs(proxy):
    proxy.call(1, "exec_raw", {"argv": ["sh", "-c", "sleep 0.5; echo hi"]})
    proxy.process.stdin.close()
    assert outcome(proxy.answer(1))["stdout"] == "hi\n"
    assert proxy.process.wait(5) == 0


def test_when_the_client_died_its_calls_end_with_it(local):
    """A client that crashes closes both pipes and sends no signal: nobody is left to read the answer."""
    it = local.start("mcp", "proxy", "--tenant", "local", "--environment", "dev", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        it.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "exec_raw", "arguments": {"argv": ["sleep", "56.5"]}}}).encode() + b"\n")
        it.stdin.flush()
        await_that("it runs", lambda: local.processes("sleep 56.5"))
        it.stdin.close()
        it.stdout.close()
        await_that("it is dead", lambda: not local.processes("sleep 56.5"))
        it.wait(5)
    finally:
        it.kill()
        it.wait()


def test_a_client_that_reads_nothing_does_not_hang_the_proxy_for_ever(local):
    it = local.start("mcp", "proxy", "--tenant", "local", "--environment", "dev", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "exec_raw", "arguments": {"argv": ["sh", "-c", "head -c 900000 /dev/zero | tr '\\0' x"]}}}).encode() + b"\n"
    it.stdin.write(line * 3)
    it.stdin.flush()
    it.stdout.close()
    it.stdin.close()
    try:
        it.wait(15)
    finally:
        it.kill()
        it.wait()


def test_progress_is_relayed_with_the_clients_token(proxy):
    proxy.handshake()
    proxy.call(1, "exec_raw", {"argv": ["sh", "-c", "for i in 1 2 3 4 5 6; do echo $i; sleep 1; done"]}, _meta={"progressToken": "mine"})
    proxy.answer(1, 15)
    notes = [m for m in proxy.kept if m.get("method") == "notifications/progress"]
    assert notes and all(note["params"]["progressToken"] == "mine" for note in notes)
    values = [note["params"]["progress"] for note in notes]
    assert values == sorted(set(values))


def test_wrong_arguments_and_unknown_things_come_back_with_their_ids(proxy):
    proxy.call(1, "nope")
    proxy.call(2, "exec_raw", {"argv": []})
    proxy.send("no/such", {}, 3)
    proxy.send("tools/call", {"name": 5}, 4)
    assert proxy.answer(1)["error"]["data"]["errorCode"] == "UNKNOWN_COMMAND"
    assert "$.argv" in json.dumps(proxy.answer(2))
    assert proxy.answer(3)["error"]["code"] == -32601
    assert proxy.answer(4)["error"]["code"] in (-32602, -32600)


def test_the_token_is_nowhere_to_be_seen(local, proxy):
    proxy.handshake()
    proxy.call(1, "version")
    proxy.answer(1)
    assert b"eyJ" not in open(f"/proc/{proxy.process.pid}/cmdline", "rb").read()
    assert not any(b"eyJ" in line for line in proxy.errors)


def test_an_endpoint_that_goes_away_and_comes_back(fresh):
    """The handshake answers without the endpoint; a call waits or fails clearly; afterwards calls work again."""
    it = Proxy(fresh, "--wake-timeout", "3")
    try:
        it.handshake()
        it.call(1, "exec_raw", {"argv": ["echo", "one"]})
        assert outcome(it.answer(1))["stdout"] == "one\n"
        fresh.down()
        it.call(2, "exec_raw", {"argv": ["touch", "by-two"]})
        second = it.answer(2, 20)
        assert "error" in second or second["result"].get("isError"), second
        it.send("ping", id=3)
        assert it.answer(3)["result"] == {}
        fresh.up()
        it.call(4, "exec_raw", {"argv": ["echo", "four"]})
        assert outcome(it.answer(4))["stdout"] == "four\n"
        assert it.end() == 0
    finally:
        it.process.kill()
        it.process.wait()


def test_a_call_in_flight_when_the_endpoint_dies_is_not_run_twice(fresh):
    it = Proxy(fresh, "--wake-timeout", "3")
    try:
        it.handshake()
        it.call(1, "exec_raw", {"argv": ["sh", "-c", "echo x >> once; sleep 54.5"]})
        await_that("it runs", lambda: fresh.processes("sleep 54.5"))
        fresh.down()
        fresh.up()
        answer = it.answer(1, 20)
        assert "error" in answer or answer["result"].get("isError"), answer
        assert (fresh.workspace / "once").read_text() == "x\n"
    finally:
        it.process.kill()
        it.process.wait()


def test_before_there_is_an_environment_the_handshake_works_or_the_reason_is_on_stderr(fresh):
    fresh.down()
    it = Proxy(fresh, "--wake-timeout", "1")
    try:
        it.send("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, 1)
        it.call(2, "version")
        first = it.lines.get(timeout=15)
        if first is None:
            await_that("a reason", lambda: it.errors, seconds=3)
            assert it.process.wait(5) != 0
        else:
            assert json.loads(first)["id"] in (1, 2)
            answer = it.answer(2, 15)
            assert "error" in answer or answer["result"].get("isError")
    finally:
        it.process.kill()
        it.process.wait()


DAMAGED = [b"", b"{", b'{"localPort":"x"}', b'{"localPort":0}', b'{"localPort":70000}', b"\xff\xff"]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_state_file_is_named_and_is_no_crash(fresh, content):
    fresh.state_file.write_bytes(content)
    for args in (("mcp", "call", "--tenant", "local", "--environment", "dev", "--tool", "version"),
                 ("mcp", "tools", "--tenant", "local", "--environment", "dev"), ("local", "status")):
        done = fresh.cuddy(*args, check=False, timeout=20)
        said = done.stdout + done.stderr
        assert "panicked" not in said and done.returncode in (0, 1, 2, 3, 4), (args, said)
        assert done.returncode == 0 or "error:" in done.stderr, (args, said)
    fresh.cuddy("local", "down", "--name", "dev", check=False)
    await_that("it is down all the same", lambda: not fresh.processes("cuddy-sidecar"), seconds=10)


def test_a_state_file_that_names_a_foreign_port_gets_no_bearer(fresh):
    """Whoever listens on the port of a stale state file must not be handed a token that opens the environment."""
    port, heard = free_port(), []
    listener = socket.create_server(("127.0.0.1", port))

    def listen():
        try:
            connection, _ = listener.accept()
            connection.settimeout(2)
            heard.append(connection.recv(65536))
            connection.close()
        except OSError:
            pass

    threading.Thread(target=listen, daemon=True).start()
    state = json.loads(fresh.state_file.read_text())
    fresh.state_file.write_text(json.dumps({**state, "localPort": port}))
    done = fresh.cuddy("mcp", "call", "--tenant", "local", "--environment", "dev", "--tool", "version", check=False, timeout=20)
    listener.close()
    assert not any(b"Bearer" in data or b"bearer ey" in data for data in heard) or done.returncode != 0


def test_the_official_client_works_through_the_proxy(local):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def use():
        server = StdioServerParameters(command=os.path.join(os.environ["CUDDY_BIN"], "cuddy"), env=local.env,
                                       args=["mcp", "proxy", "--tenant", "local", "--environment", "dev"])
        async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools
            answers = await asyncio.gather(*(session.call_tool("exec_raw", {"argv": ["echo", str(n)]}) for n in range(10)))
            wrong = await session.call_tool("exec_raw", {"argv": []})
            return [tool.name for tool in tools], answers, wrong

    names, answers, wrong = asyncio.run(asyncio.wait_for(use(), 30))
    assert "exec_raw" in names
    dumped = [a.model_dump(by_alias=True)["structuredContent"]["stdout"] for a in answers]
    assert dumped == [f"{n}\n" for n in range(10)]
    assert wrong.model_dump(by_alias=True)["isError"] is True


def test_the_official_client_works_over_http(local):
    import httpx2
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def use():
        headers = {"Authorization": f"Bearer {local.token()}"}
        async with (httpx2.AsyncClient(headers=headers) as http,
                    streamable_http_client(f"http://127.0.0.1:{local.port}/mcp", http_client=http) as streams,
                    ClientSession(streams[0], streams[1]) as session):
            await session.initialize()
            return (await session.call_tool("version", {})).model_dump(by_alias=True)

    assert asyncio.run(asyncio.wait_for(use(), 30))["structuredContent"]["build"]
