"""The MCP endpoint: handshake, message shapes, bodies, tools and their arguments."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from local_kit import Refused, await_that, outcome, read_answer, status_of

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


# Handshake.

@pytest.mark.parametrize("asked", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_initialize_echoes_a_version_it_knows(local, asked):
    assert local.initialize(protocolVersion=asked).json["result"]["protocolVersion"] == asked


@pytest.mark.parametrize("asked", ["1900-01-01", "2026-07-28", "3000-01-01", "x", ""])
def test_initialize_answers_other_versions_with_its_newest(local, asked):
    assert local.initialize(protocolVersion=asked).json["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("params", [
    {"protocolVersion": "2024-11-05", "capabilities": {}},
    {"protocolVersion": "2024-11-05"},
    {"protocolVersion": "2024-11-05", "capabilities": {"experimental": {"x": [1]}}, "clientInfo": {"name": "x"}, "more": 1},
])
def test_the_seeds_own_handshake_without_client_info_works(local, params):
    reply = local.rpc("initialize", params)
    assert reply.status == 200 and len(reply.session) == 36
    assert reply.json["result"]["capabilities"]["tools"] is not None
    done = local.rpc("notifications/initialized", id=None, session=reply.session)
    assert done.status in (202, 204) and done.body == b""
    assert local.tool("version", {}, session=reply.session).status == 200


def test_tools_work_before_initialized_was_said(local):
    session = local.initialize().session
    assert len(local.rpc("tools/list", {}, session=session).json["result"]["tools"]) > 5


@pytest.mark.parametrize("params", [None, {}, {"protocolVersion": 5}, [], "x"])
def test_a_broken_initialize_gets_an_answer_with_its_id(local, params):
    reply = local.rpc("initialize", params, id="i-1")
    assert reply.status in (200, 400) and reply.json["id"] == "i-1"


# Ids and message shapes.

@pytest.mark.parametrize("id", [0, -1, 1, 2**53, 2**63 - 1, "", "a", "ü☃", "x" * 1000, "1"])
def test_an_id_comes_back_as_it_was(local, id):
    answer = local.rpc("ping", id=id).json
    assert answer["id"] == id and type(answer["id"]) is type(id) and answer["result"] == {}


@pytest.mark.parametrize("body", ["null", "true", "5", '"x"', "[]", "[1]", "[" + PING.decode() + "]", "{}", '{"id":1}',
                                  '{"jsonrpc":"1.0","id":1,"method":"ping"}', '{"jsonrpc":"2.0","id":1,"method":5}',
                                  '{"jsonrpc":"2.0","id":{},"method":"ping"}', '{"jsonrpc":"2.0","id":[1],"method":"ping"}',
                                  '{"jsonrpc":"2.0","id":true,"method":"ping"}', '{"jsonrpc":"2.0","id":null,"method":"ping"}',
                                  '{"id":1,"method":"ping"}', '{"jsonrpc":"2.0","id":1,"method":""}'])
def test_a_body_that_is_no_request_is_an_invalid_request(local, body):
    reply = local.request(body=body.encode())
    assert reply.status in (200, 400), reply.text
    assert reply.json["error"]["code"] in (-32600, -32601) and "result" not in reply.json


@pytest.mark.parametrize("body", [b"", b" ", b"{", b"{bad", b"\xff\xfe", b'{"jsonrpc":"2.0","id":1,"method":"ping"}x',
                                  b'{"jsonrpc":"2.0","id":1,"method":"p\xffng"}', b"\x00", b'{"a":' * 5000, b"[" * 100000,
                                  b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"[" * 2000 + b"]" * 2000 + b"}}",
                                  b"<xml/>", b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', b"\xef\xbb\xbf" + PING])
def test_a_body_that_is_no_json_is_a_parse_error_and_nothing_dies(local, body):
    reply = local.request(body=body, headers={"Content-Length": str(len(body))})
    assert reply.status in (200, 400), reply.text
    assert reply.json["error"]["code"] in (-32700, -32600)
    assert local.rpc("ping").status == 200


def test_an_unknown_method_is_not_found_and_an_unknown_notification_is_taken(local):
    answer = local.rpc("no/such", {}, id=9).json
    assert answer["error"]["code"] == -32601 and answer["id"] == 9
    reply = local.rpc("notifications/no-such", {}, id=None)
    assert reply.status in (202, 204) and reply.body == b""


def test_a_request_sent_as_a_notification_runs_nothing(local):
    reply = local.rpc("tools/call", {"name": "exec_raw", "arguments": {"argv": ["touch", "by-notification"]}}, id=None)
    assert reply.status in (202, 204, 400)
    assert local.rpc("ping").status == 200
    assert not (local.workspace / "by-notification").exists()


def test_a_response_that_nobody_waits_for_is_taken_in_silence(local):
    for body in ({"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}):
        assert local.request(body=body).status in (202, 204, 400)


@pytest.mark.parametrize("params", [None, {}, {"name": 5}, {"name": None}, {"name": "version", "arguments": []},
                                    {"name": "version", "arguments": "{}"}, {"name": "version", "arguments": 5}, [], "x", 5,
                                    {"name": ""}, {"name": "x" * 100_000}])
def test_a_broken_tools_call_is_invalid_params_with_its_id(local, params):
    reply = local.rpc("tools/call", params, id=77)
    assert reply.status in (200, 400) and reply.json["id"] == 77
    assert reply.json["error"]["code"] in (-32602, -32600), reply.text


@pytest.mark.parametrize("cursor", [7, {}, "no-such-cursor"])
def test_a_broken_cursor_is_invalid_params(local, cursor):
    reply = local.rpc("tools/list", {"cursor": cursor}, id=7)
    assert reply.status == 200 and reply.json["error"]["code"] == -32602 and reply.json["id"] == 7


@pytest.mark.parametrize("arguments", [None, {}])
def test_arguments_may_be_absent(local, arguments):
    assert outcome(local.tool("version", arguments).json)["build"]


def test_arguments_may_be_null(local):
    assert outcome(local.rpc("tools/call", {"name": "version", "arguments": None}).json)["build"]


# Bodies on the wire.

@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/xml",
                                  "application/jsonp"])
def test_another_content_type_is_refused(local, kind):
    reply = local.request(body=PING, headers={"Content-Type": kind})
    assert reply.status in (400, 415), reply.text


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/json;charset=UTF-8"])
def test_json_may_be_said_in_many_ways(local, kind):
    assert local.request(body=PING, headers={"Content-Type": kind}).status == 200


@pytest.mark.parametrize("accept", ["text/html", "image/png"])
def test_a_client_that_accepts_neither_form_is_told_so(local, accept):
    assert local.request(body=PING, headers={"Accept": accept}).status in (200, 406)


def test_a_body_of_5_mib_is_refused_and_not_read_to_its_end(local):
    reply = local.raw(local.head(f"Content-Length: {5 << 20}"))
    assert status_of(reply) == 413, reply


def test_a_body_of_5_mib_in_chunks_is_refused_before_its_end(local):
    with socket.create_connection(("127.0.0.1", local.port), timeout=5) as stream:
        stream.sendall(local.head("Transfer-Encoding: chunked"))
        chunk, sent = b"10000\r\n" + b" " * 65536 + b"\r\n", 0
        try:
            while sent < 8 << 20:
                stream.sendall(chunk)
                sent += 65536
        except OSError:
            pass
        answer = read_answer(stream)
    # A reset may overtake the answer; what may not be is that all of it was taken.
    assert status_of(answer) == 413 or (not answer and sent < 8 << 20), (sent, answer)
    assert local.rpc("ping").status == 200


def test_a_body_of_one_byte_a_second_holds_nobody_up(local):
    slow = []
    try:
        for _ in range(32):
            stream = socket.create_connection(("127.0.0.1", local.port), timeout=5)
            stream.sendall(local.head(f"Content-Length: {len(PING)}") + PING[:1])
            slow.append(stream)
        began = time.monotonic()
        assert local.rpc("ping").status == 200 and time.monotonic() - began < 2
        slow[0].sendall(PING[1:])
        assert status_of(read_answer(slow[0])) == 200
    finally:
        for stream in slow:
            stream.close()


def test_a_body_shorter_than_announced_runs_nothing(local):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "exec_raw", "arguments": {"argv": ["touch", "by-a-short-body"]}}}).encode()
    with socket.create_connection(("127.0.0.1", local.port), timeout=5) as stream:
        stream.sendall(local.head(f"Content-Length: {len(body) + 1}") + body)
        stream.shutdown(socket.SHUT_WR)
        read_answer(stream)
    assert local.rpc("ping").status == 200 and not (local.workspace / "by-a-short-body").exists()


@pytest.mark.parametrize("lines", ["Content-Length: 5\r\nContent-Length: 40", "Content-Length: 40\r\nTransfer-Encoding: chunked",
                                   "Content-Length: -1", "Content-Length: 99999999999999999999", "Transfer-Encoding: gzip"])
def test_an_ambiguous_length_smuggles_no_second_request(local, lines):
    smuggled = local.head(f"Content-Length: {len(PING)}") + PING
    answer = local.raw(local.head(lines) + b"0\r\n\r\n" + smuggled, seconds=2)
    assert answer.count("HTTP/1.1 200") <= 1 and local.rpc("ping").status == 200


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET / HTTP/9\r\n\r\n", b"\x00" * 100, b"PRI * HTTP/2.0\r\n\r\n",
                                  b"POST /mcp HTTP/1.1\r\nX: " + b"a" * 1_000_000, b"POST /mcp HTTP/1.1\r\n" + b"A: b\r\n" * 5000])
def test_garbage_on_the_wire_kills_nothing(local, data):
    try:
        local.raw(data, seconds=1)
    except OSError:
        pass
    assert local.rpc("ping").status == 200


@pytest.mark.parametrize("path", ["/", "/mcp/", "/mcp/x", "/../mcp", "//mcp", "/MCP", "/sse", "/metrics", "/healthz", "/debug/pprof",
                                  "/%6dcp", "/mcp%00", "/.well-known/oauth-protected-resource"])
def test_other_addresses_run_no_tool(local, path):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "exec_raw", "arguments": {"argv": ["touch", "by-path"]}}}
    reply = local.request(path=path, body=body, token=None)
    assert reply.status in (401, 404, 400, 405, 200) and not (local.workspace / "by-path").exists()
    assert b"result" not in reply.body


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW"])
def test_methods_that_are_not_served_say_405(local, method):
    assert local.request(method).status == 405


def test_a_wrong_protocol_version_header_is_told(local):
    session = local.initialize().session
    reply = local.rpc("tools/list", {}, session=session, headers={"MCP-Protocol-Version": "1900-01-01"})
    assert reply.status == 400, reply.text


def test_the_version_header_on_initialize_itself_is_welcome(local):
    reply = local.rpc("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}}, headers={"Mcp-Protocol-Version": "2025-06-18"})
    assert reply.status == 200


# Tools.

def tools(local):
    return local.rpc("tools/list", {}).json["result"]["tools"]


FIRST = {"version", "idle", "usage", "exec_raw", "exec_job_status", "exec_job_await", "exec_job_output", "exec_job_cancel",
         "activity_lease_list", "activity_lease_take", "activity_lease_release"}


def test_the_first_tools_are_all_there_each_with_family_and_hints(local):
    listed = {t["name"]: t for t in tools(local)}
    assert set(listed) == FIRST
    for tool in listed.values():
        assert tool["_meta"]["family"] and tool["description"]
        assert {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} <= set(tool["annotations"])
        assert tool["inputSchema"]["type"] == "object"


@pytest.mark.parametrize("name", ["nope", "exec_write", "cloud_inject_aws_credentials", "EXEC_RAW", "exec_raw ", " exec_raw", "exec-raw",
                                  "exec_raw\u0000", "../exec_raw", "job_start", "__proto__", "exec_agent"])
def test_unknown_and_hidden_tools_are_refused_alike(local, name):
    answer = local.tool(name, {"argv": ["touch", "by-hidden"]}).json
    assert answer["error"]["code"] in (-32601, -32602), answer
    assert answer["error"]["data"]["errorCode"] == "UNKNOWN_COMMAND"
    assert not (local.workspace / "by-hidden").exists()


def test_the_retired_names_work_and_are_not_listed(local):
    assert outcome(local.tool("raw", {"argv": ["echo", "hi"]}).json)["stdout"] == "hi\n"
    job = local.job("echo done")
    assert outcome(local.tool("job_await", {"id": job}).json)["job"]["state"] == "exited"
    assert outcome(local.tool("job_status", {"id": job}).json)["job"]["exitCode"] == 0
    assert outcome(local.tool("job_output", {"id": job}).json)["output"] == "done\n"
    assert outcome(local.tool("job_cancel", {"id": job}).json)["cancel"]["signalled"] is False
    assert not {"raw", "job_status", "job_await", "job_output", "job_cancel"} & {t["name"] for t in tools(local)}


def test_the_argument_names_of_real_clients_are_understood(local):
    (local.workspace / "sub").mkdir()
    out = local.call("exec_raw", command=["pwd"], dir=str(local.workspace / "sub"))
    assert out["stdout"].strip().endswith("/sub")


def test_an_argument_and_its_alias_together_are_refused(local):
    with pytest.raises(Refused):
        local.call("exec_raw", argv=["echo", "a"], command=["echo", "b"])


def required(tool):
    samples = {"argv": ["true"], "id": "no-such", "name": "x"}
    return {name: samples[name] for name in tool["inputSchema"].get("required", [])}


@pytest.mark.parametrize("name", sorted(FIRST))
def test_every_tool_refuses_another_scope_and_takes_its_own(local, name):
    tool = next(t for t in tools(local) if t["name"] == name)
    for wrong in ({"tenant": "other"}, {"environment": "other"}, {"tenant": "local", "environment": "de"},
                  {"tenant": "LOCAL"}, {"environment": "dev "}, {"tenant": "other", "environment": "dev"}):
        with pytest.raises(Refused) as refused:
            local.call(name, **{**required(tool), **wrong})
        assert refused.value.code == "SCOPE_MISMATCH", refused.value
    for odd in ({"tenant": 5}, {"environment": []}, {"tenant": "x" * 64}):
        with pytest.raises(Refused) as refused:
            local.call(name, **{**required(tool), **odd})
        assert refused.value.path == f"$.{next(iter(odd))}", refused.value
    try:
        local.call(name, **{**required(tool), "tenant": "local", "environment": "dev"})
    except Refused as refused:
        assert refused.code != "SCOPE_MISMATCH"


WRONG = {
    "argv missing": ("exec_raw", {}, "$.argv"),
    "argv empty": ("exec_raw", {"argv": []}, "$.argv"),
    "argv is text": ("exec_raw", {"argv": "ls"}, "$.argv"),
    "argv holds a number": ("exec_raw", {"argv": ["ls", 5]}, "$.argv[1]"),
    "argv holds null": ("exec_raw", {"argv": [None]}, "$.argv[0]"),
    "argv of 1025": ("exec_raw", {"argv": ["echo"] * 1025}, "$.argv"),
    "argv holds NUL": ("exec_raw", {"argv": ["echo", "a\0b"]}, "$.argv[1]"),
    "program empty": ("exec_raw", {"argv": [""]}, "$.argv[0]"),
    "cwd is a number": ("exec_raw", {"argv": ["ls"], "cwd": 5}, "$.cwd"),
    "stdin is a list": ("exec_raw", {"argv": ["ls"], "stdin": []}, "$.stdin"),
    "timeout 0": ("exec_raw", {"argv": ["ls"], "timeout_seconds": 0}, "$.timeout_seconds"),
    "timeout -1": ("exec_raw", {"argv": ["ls"], "timeout_seconds": -1}, "$.timeout_seconds"),
    "timeout 3601": ("exec_raw", {"argv": ["ls"], "timeout_seconds": 3601}, "$.timeout_seconds"),
    "timeout a fraction": ("exec_raw", {"argv": ["ls"], "timeout_seconds": 1.5}, "$.timeout_seconds"),
    "timeout is text": ("exec_raw", {"argv": ["ls"], "timeout_seconds": "5"}, "$.timeout_seconds"),
    "timeout 1e30": ("exec_raw", {"argv": ["ls"], "timeout_seconds": 1e30}, "$.timeout_seconds"),
    "timeout 2^64": ("exec_raw", {"argv": ["ls"], "timeout_seconds": 2**64}, "$.timeout_seconds"),
    "wait is text": ("exec_raw", {"argv": ["ls"], "wait": "false"}, "$.wait"),
    "env is a list": ("exec_raw", {"argv": ["ls"], "env": []}, "$.env"),
    "env value is a number": ("exec_raw", {"argv": ["ls"], "env": {"A": 5}}, "$.env.A"),
    "unknown argument": ("exec_raw", {"argv": ["ls"], "agrv": 1}, "$.agrv"),
    "await -1": ("exec_job_await", {"id": "x", "timeoutSeconds": -1}, "$.timeoutSeconds"),
    "await 601": ("exec_job_await", {"id": "x", "timeoutSeconds": 601}, "$.timeoutSeconds"),
    "await without id": ("exec_job_await", {}, "$.id"),
    "output offset -1": ("exec_job_output", {"id": "x", "offset": -1}, "$.offset"),
    "output page 0": ("exec_job_output", {"id": "x", "maxBytes": 0}, "$.maxBytes"),
    "output page too large": ("exec_job_output", {"id": "x", "maxBytes": 1048577}, "$.maxBytes"),
    "cancel with USR1": ("exec_job_cancel", {"id": "x", "signal": "USR1"}, "$.signal"),
    "cancel with a number": ("exec_job_cancel", {"id": "x", "signal": 9}, "$.signal"),
    "lease without name": ("activity_lease_take", {}, "$.name"),
    "lease name empty": ("activity_lease_take", {"name": ""}, "$.name"),
    "lease ttl 0": ("activity_lease_take", {"name": "x", "ttlSeconds": 0}, "$.ttlSeconds"),
    "lease ttl 43201": ("activity_lease_take", {"name": "x", "ttlSeconds": 43201}, "$.ttlSeconds"),
    "lease pid 0": ("activity_lease_take", {"name": "x", "pid": 0}, "$.pid"),
    "lease pid -1": ("activity_lease_take", {"name": "x", "pid": -1}, "$.pid"),
    "lease exclusive is text": ("activity_lease_take", {"name": "x", "exclusive": "yes"}, "$.exclusive"),
    "release without id": ("activity_lease_release", {}, "$.id"),
    "version with an argument": ("version", {"verbose": True}, "$.verbose"),
    "usage interval is text": ("usage", {"intervalSeconds": "1"}, "$.intervalSeconds"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_refused_and_its_place_named(local, name):
    tool, arguments, path = WRONG[name]
    with pytest.raises(Refused) as refused:
        local.call(tool, **arguments)
    assert refused.value.code == "INVALID_PARAMS" and refused.value.path == path, refused.value
    assert refused.value.path in refused.value.text


def test_structured_results_hold_what_their_schema_promises(local):
    schemas = {t["name"]: t["outputSchema"] for t in tools(local)}
    calls = {"version": {}, "usage": {"intervalSeconds": 0.1}, "idle": {}, "exec_raw": {"argv": ["true"]}, "exec_job_status": {},
             "activity_lease_list": {}}
    for name, arguments in calls.items():
        result = local.call(name, **arguments)
        assert set(schemas[name].get("required", [])) <= set(result), name
        assert set(result) <= set(schemas[name]["properties"]), name
        answer = local.tool(name, arguments).json["result"]
        assert set(json.loads(answer["content"][0]["text"])) == set(answer["structuredContent"])


def test_usage_clamps_its_window_and_reports_memory_and_disk(local):
    began = time.monotonic()
    usage = local.call("usage", intervalSeconds=0)
    assert time.monotonic() - began < 2
    assert usage["tenant"] == "local" and usage["environment"] == "dev"
    assert "unavailable" in usage["cpu"] or usage["cpu"]["intervalSeconds"] == pytest.approx(0.1, abs=0.2)
    assert usage["disk"][0]["totalBytes"] > 0


def test_one_id_used_twice_at_once_crosses_no_answers(local):
    session = local.initialize().session

    def one(word):
        arguments = {"argv": ["sh", "-c", f"sleep 0.3; echo {word}"]}
        return word, local.tool("exec_raw", arguments, id=1, session=session)

    with ThreadPoolExecutor(2) as pool:
        for word, reply in pool.map(one, ["left", "right"]):
            if reply.status == 200:
                assert outcome(reply.json)["stdout"] == f"{word}\n"
            else:
                assert reply.status in (400, 409), reply.text


def test_thirty_calls_at_once_each_get_their_own_answer_or_429(local):
    def one(n):
        arguments = {"argv": ["sh", "-c", f"sleep 0.2; echo {n}"]}
        while (reply := local.tool("exec_raw", arguments, id=7)).status == 429:
            assert reply.headers["retry-after"] == "1" and reply.json["error"]["data"]["retryable"] is True
            time.sleep(0.1)
        return n, reply

    with ThreadPoolExecutor(30) as pool:
        for n, reply in pool.map(one, range(30)):
            assert reply.status == 200, reply.text
            assert reply.json["id"] == 7 and outcome(reply.json)["stdout"] == f"{n}\n"


def test_many_requests_on_one_connection_are_answered_in_order(local):
    body = [json.dumps({"jsonrpc": "2.0", "id": n, "method": "ping"}).encode() for n in range(3)]
    data = b"".join(local.head(f"Content-Length: {len(b)}", *(["Connection: close"] if n == 2 else [])) + b for n, b in enumerate(body))
    with socket.create_connection(("127.0.0.1", local.port), timeout=5) as stream:
        stream.sendall(data)
        seen = b""
        while chunk := stream.recv(65536):
            seen += chunk
    assert [seen.count(f'"id":{n}'.encode()) for n in range(3)] == [1, 1, 1]


def test_a_progress_token_brings_a_stream_that_ends_with_the_answer(local):
    params = {"name": "exec_raw", "arguments": {"argv": ["echo", "hi"]}, "_meta": {"progressToken": "p"}}
    reply = local.rpc("tools/call", params, id=5)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.events[-1]["id"] == 5 and outcome(reply.events[-1])["stdout"] == "hi\n"
    plain = local.rpc("tools/call", params, id=5, headers={"Accept": "application/json"})
    assert plain.headers["content-type"].startswith("application/json") and outcome(plain.json)["stdout"] == "hi\n"


@pytest.mark.parametrize("name", ["exec_raw", "exec_job_await"])
def test_a_long_call_with_a_progress_token_reports_progress(local, name):
    job = local.job("for i in 1 2 3 4 5 6; do echo $i; sleep 1; done")
    arguments = {"exec_raw": {"argv": ["sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 1; done"]},
                 "exec_job_await": {"id": job, "timeoutSeconds": 5}}[name]
    reply = local.rpc("tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": "p"}})
    notes = [event for event in reply.events if event.get("method") == "notifications/progress"]
    assert notes and all(note["params"]["progressToken"] == "p" for note in notes), reply.text[:500]


def test_with_the_endpoint_full_a_cancel_still_passes(local):
    with ThreadPoolExecutor(24) as pool:
        session = local.initialize().session
        running = [pool.submit(local.tool, "exec_raw", {"argv": ["sleep", "4.2"]}, id="mine", session=session)]
        running += [pool.submit(local.tool, "exec_raw", {"argv": ["sleep", "4.3"]}) for _ in range(23)]
        await_that("it is full", lambda: local.processes("sleep 4.2") and len(local.processes("sleep 4.3")) >= 12)
        note = local.rpc("notifications/cancelled", {"requestId": "mine"}, id=None, session=session)
        assert note.status in (202, 204), note.text
        await_that("it is dead", lambda: not local.processes("sleep 4.2"), seconds=3)
        await_that("there is room again", lambda: local.rpc("ping").status == 200)
        for reply in running:
            reply.result()
