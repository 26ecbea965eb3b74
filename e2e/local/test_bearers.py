"""Who is let in: the bearer, the Host and the Origin, all judged before a byte of the body is read."""

import hashlib
import hmac
import socket
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from local_kit import ISSUER, b64, read_answer, status_of


def now(seconds=0):
    return int(time.time()) + seconds


def hs256(local):
    signed = f"{b64({'alg': 'HS256', 'typ': 'JWT'})}.{b64(local.claims())}"
    return f"{signed}.{b64(hmac.new(local.public_pem, signed.encode(), hashlib.sha256).digest())}"


def tampered(local):
    head, _, signature = local.token().split(".")
    return f"{head}.{b64(local.claims(exp=now(301)))}.{signature}"


def with_raw_claims(local, claims):
    signed = f"{b64({'alg': 'EdDSA', 'typ': 'JWT'})}.{b64(claims)}"
    return f"{signed}.{b64(local.key.sign(signed.encode()))}"


# Each refusal and a word that its reason must have.
REFUSALS = {
    "expired": (lambda l: l.token(iat=now(-400), exp=now(-100)), "expired"),
    "lives 331 s": (lambda l: l.token(exp=now(331)), "life"),
    "lives 10 years": (lambda l: l.token(exp=now(315360000)), "life"),
    "a long life hidden by an old iat": (lambda l: l.token(iat=now(-200), exp=now(200)), "life"),
    "no exp": (lambda l: l.token(exp=None), "exp"),
    "no iat": (lambda l: l.token(iat=None), "issue"),
    "exp before iat": (lambda l: l.token(iat=now(200), exp=now(100)), ""),
    "exp is text": (lambda l: l.token(exp=str(now(100))), "type"),
    "exp is a huge number": (lambda l: l.token(exp=1e300), ""),
    "exp is negative": (lambda l: l.token(exp=-1), ""),
    "iat is 2^63": (lambda l: l.token(iat=2**63), ""),
    "iat in the future": (lambda l: l.token(iat=now(120), exp=now(300)), "future"),
    "nbf in the future": (lambda l: l.token(nbf=now(3600)), ""),
    "alg none": (lambda l: f"{b64({'alg': 'none'})}.{b64(l.claims())}.", "eddsa"),
    "alg None": (lambda l: f"{b64({'alg': 'None'})}.{b64(l.claims())}.", "eddsa"),
    "alg none with a good signature": (lambda l: l.token(header={"alg": "none"}), "eddsa"),
    "alg missing": (lambda l: l.token(header={"typ": "JWT"}), ""),
    "HS256 signed with the public key's text": (hs256, "eddsa"),
    "alg HS256 with a good signature": (lambda l: l.token(header={"alg": "HS256"}), "eddsa"),
    "audience of another environment": (lambda l: l.token(aud="erun-mcp:local/other"), "aud"),
    "audience that is a prefix": (lambda l: l.token(aud="erun-mcp:local/de"), "aud"),
    "audience that is longer": (lambda l: l.token(aud="erun-mcp:local/dev2"), "aud"),
    "audience in other case": (lambda l: l.token(aud="erun-mcp:local/DEV"), "aud"),
    "audience as a list": (lambda l: l.token(aud=["erun-mcp:local/dev"]), "aud"),
    "no audience": (lambda l: l.token(aud=None), "aud"),
    "audience empty": (lambda l: l.token(aud=""), "aud"),
    "other issuer": (lambda l: l.token(iss="file:///tmp/attacker.pub"), "issuer"),
    "no issuer": (lambda l: l.token(iss=None), "iss"),
    "issuer as a list": (lambda l: l.token(iss=[ISSUER]), "type"),
    "another key": (lambda l: l.token(key=ed25519.Ed25519PrivateKey.generate()), ""),
    "another key named by kid and jku": (lambda l: l.token(
        header={"alg": "EdDSA", "kid": "me", "jku": "http://127.0.0.1:1/k", "x5u": "http://127.0.0.1:1/x"},
        key=ed25519.Ed25519PrivateKey.generate()), ""),
    "another key that brings itself as jwk": (lambda l: l.token(
        header={"alg": "EdDSA", "jwk": {"kty": "OKP", "crv": "Ed25519", "x": b64(b"1" * 32)}},
        key=ed25519.Ed25519PrivateKey.generate()), ""),
    "a critical header that nobody knows": (lambda l: l.token(header={"alg": "EdDSA", "crit": ["exp"], "b64": False}), ""),
    "claims changed after signing": (tampered, "signature"),
    "signature cut": (lambda l: l.token()[:-4], ""),
    "signature missing": (lambda l: l.token().rsplit(".", 1)[0] + ".", ""),
    "two segments": (lambda l: "a.b", "malformed"),
    "four segments": (lambda l: l.token() + ".x", "malformed"),
    "not base64": (lambda l: "!!.!!.!!", ""),
    "claims are a list": (lambda l: with_raw_claims(l, b"[]"), ""),
    "claims name aud twice": (lambda l: with_raw_claims(
        l, (f'{{"iss":"{ISSUER}","aud":"erun-mcp:local/other","aud":"erun-mcp:local/dev",'
            f'"iat":{now()},"exp":{now(300)}}}').encode()), ""),
    "100 kB of token": (lambda l: "a" * 100_000, None),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_bad_bearer_is_refused_with_its_reason_before_the_body(local, name):
    make, word = REFUSALS[name]
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", local.port), timeout=5) as stream:
        # A body is announced and never sent: an edge that reads it first can not answer.
        stream.sendall(local.head("Content-Length: 4096", token=make(local)))
        answer = read_answer(stream)
    assert time.monotonic() - began < 4
    if word is None:
        assert status_of(answer) in (400, 401, 431), answer
        return
    head, _, body = answer.partition("\r\n\r\n")
    assert status_of(answer) == 401, answer
    assert "www-authenticate: bearer" in head.lower()
    assert body.startswith("unauthorized: ") and word in body.lower(), body
    assert "ey" not in body.split() and "PUBLIC" not in body


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "Token x", "Bearerx y"])
def test_no_bearer_is_refused_before_the_body(local, header):
    lines = ["Content-Length: 4096"] + ([f"Authorization: {header}"] if header is not None else [])
    answer = local.raw(local.head(*lines, token=None))
    assert status_of(answer) == 401 and "www-authenticate: bearer" in answer.lower(), answer
    assert "unauthorized: " in answer


def test_two_authorization_headers_are_refused_even_when_both_are_good(local):
    answer = local.raw(local.head(f"Authorization: Bearer {local.token()}", "Content-Length: 4096"))
    assert status_of(answer) == 401 and "unauthorized: " in answer, answer


def test_two_tokens_in_one_header_are_refused(local):
    answer = local.raw(local.head("Content-Length: 4096", token=f"{local.token()}, Bearer {local.token()}"))
    assert status_of(answer) == 401, answer


def test_a_token_in_the_address_is_no_bearer(local):
    assert local.request(path=f"/mcp?access_token={local.token()}", token=None, body={}).status == 401


def test_the_word_bearer_may_be_in_any_case(local):
    for word in ("bearer", "BEARER", "Bearer"):
        reply = local.rpc("ping", token=None, headers={"Authorization": f"{word} {local.token()}"})
        assert reply.status == 200, (word, reply.text)


def test_a_bearer_of_300_seconds_is_good_and_so_is_a_clock_a_little_ahead(local):
    assert local.rpc("ping", token=local.token(iat=now(), exp=now(300))).status == 200
    assert local.rpc("ping", token=local.token(iat=now(5), exp=now(300))).status == 200


def test_the_token_that_the_cli_prints_is_good(local):
    token = local.cuddy("mcp", "token", "--tenant", "local", "--environment", "dev").stdout.strip()
    assert local.rpc("ping", token=token).status == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS", "HEAD"])
def test_every_method_wants_a_bearer(local, method):
    assert local.request(method, token=None).status == 401


@pytest.mark.parametrize("probe", [{"X-Erun-Idle-Probe": "true"}, {"X-Erun-Auth-Tenant": "local"},
                                   {"X-Forwarded-For": "127.0.0.1"}])
def test_no_header_stands_in_for_a_bearer(local, probe):
    assert local.rpc("ping", token=None, headers=probe).status == 401


def test_a_scope_without_a_capability_gets_in_and_can_do_nothing(local):
    token = local.token(scope="openid profile")
    reply = local.rpc("tools/list", {}, token=token)
    assert reply.status in (200, 403)
    if reply.status == 200:
        assert reply.json["result"]["tools"] == []
    answer = local.tool("exec_raw", {"argv": ["touch", "by-nobody"]}, token=token)
    assert answer.status in (200, 403)
    assert not (local.workspace / "by-nobody").exists()


def test_a_reader_sees_no_tool_that_works_and_calls_none(local):
    token = local.token(scope="erun:read")
    names = {t["name"] for t in local.rpc("tools/list", {}, token=token).json["result"]["tools"]}
    assert "version" in names and "exec_raw" not in names and "exec_job_cancel" not in names
    for tool in ("exec_raw", "raw", "exec_job_cancel", "activity_lease_take"):
        reply = local.tool(tool, {"argv": ["touch", "by-reader"], "id": "x", "name": "x"}, token=token)
        message = reply.json if reply.status == 200 else {"error": {}}
        assert "error" in message or message["result"].get("isError"), (tool, message)
    assert not (local.workspace / "by-reader").exists()


GOOD_HOSTS = ["127.0.0.1:{port}", "localhost:{port}", "[::1]:{port}"]
BAD_HOSTS = ["evil.com", "evil.com:{port}", "localhost.evil.com", "127.0.0.1.evil.com:{port}", "127.0.0.1@evil.com",
             "evil.com@127.0.0.1", "127.0.0.1:{port}@evil.com", "0.0.0.0:{port}", "169.254.169.254", "[::ffff:1.2.3.4]",
             "localhost:{port}, evil.com", "127.0.0.1:{port} evil.com", "xn--localhost", "LOCALHOST.evil"]
BAD_ORIGINS = ["http://evil.com", "https://evil.com", "null", "http://localhost.evil.com", "http://127.0.0.1@evil.com",
               "http://evil.com#127.0.0.1", "file://", "chrome-extension://abc", "http://127.0.0.1.evil.com:{port}", "*"]


@pytest.mark.parametrize("host", GOOD_HOSTS)
def test_a_host_of_this_machine_is_welcome(local, host):
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    answer = local.raw(local.head(f"Content-Length: {len(body)}", host=host.format(port=local.port)) + body)
    assert status_of(answer) == 200, answer


@pytest.mark.parametrize("host", BAD_HOSTS)
def test_a_foreign_host_is_refused_before_bearer_and_body(local, host):
    for token in (True, None):
        answer = local.raw(local.head("Content-Length: 4096", host=host.format(port=local.port), token=token))
        assert status_of(answer) in (400, 403), answer


@pytest.mark.parametrize("origin", BAD_ORIGINS)
def test_a_foreign_origin_is_refused_before_bearer_and_body(local, origin):
    for token in (True, None):
        answer = local.raw(local.head(f"Origin: {origin.format(port=local.port)}", "Content-Length: 4096", token=token))
        assert status_of(answer) == 403, answer
        assert "access-control-allow-origin" not in answer.lower()


def test_two_hosts_or_two_origins_are_refused(local):
    for line in ("Host: evil.com", "Origin: http://localhost\r\nOrigin: http://evil.com"):
        answer = local.raw(local.head(line, "Content-Length: 4096"))
        assert status_of(answer) in (400, 403), answer


def test_a_request_without_a_host_is_refused(local):
    data = local.head("Content-Length: 4096").replace(f"Host: 127.0.0.1:{local.port}\r\n".encode(), b"")
    assert status_of(local.raw(data)) in (400, 403)


def test_an_address_in_the_request_line_does_not_stand_in_for_the_host(local):
    data = local.head("Content-Length: 4096").replace(b"POST /mcp ", b"POST http://evil.com/mcp ")
    assert status_of(local.raw(data)) in (400, 403)


def test_a_preflight_of_a_browser_gets_no_permission(local):
    reply = local.request("OPTIONS", token=None, headers={
        "Origin": "http://evil.com", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"})
    assert reply.status in (401, 403, 405) and "access-control-allow-origin" not in reply.headers


def test_a_refused_bearer_is_not_written_into_a_log(local):
    token = local.token(exp=now(331))
    local.rpc("ping", token=token)
    for path in (local.config / "erun" / "local").rglob("*"):
        if path.is_file() and path.stat().st_size < 10_000_000:
            assert token.split(".")[1].encode() not in path.read_bytes(), path
