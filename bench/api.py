"""A small client of the Kubernetes API over one kept connection: no process start in the figures."""

import base64
import http.client
import json
import os
import ssl
import tempfile
import threading
from urllib.parse import urlparse

import yaml


class Api:
    def __init__(self):
        with open(os.environ["KUBECONFIG"]) as file:
            config = yaml.safe_load(file)
        context = next(c["context"] for c in config["contexts"] if c["name"] == config["current-context"])
        cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == context["cluster"])
        user = next(u["user"] for u in config["users"] if u["name"] == context["user"])
        self.url = urlparse(cluster["server"])
        self.ssl = ssl.create_default_context(cadata=self._text(cluster, "certificate-authority"))
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
            pair.write(self._text(user, "client-certificate") + "\n" + self._text(user, "client-key"))
            pair.flush()
            self.ssl.load_cert_chain(pair.name)
        self.local = threading.local()

    @staticmethod
    def _text(part, name):
        if f"{name}-data" in part:
            return base64.b64decode(part[f"{name}-data"]).decode()
        with open(part[name]) as file:
            return file.read()

    def _connect(self):
        return http.client.HTTPSConnection(self.url.hostname, self.url.port, context=self.ssl, timeout=120)

    def request(self, method, path, body=None, kind="application/json"):
        connection = getattr(self.local, "connection", None) or self._connect()
        self.local.connection = connection
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Content-Type": kind, "Accept": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 400 and not (method == "DELETE" and answer.status == 404):
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text)

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body):
        return self.request("POST", path, body)

    def patch(self, path, body):
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path):
        return self.request("DELETE", path)

    def watch(self, path):
        """Yields (type, object) of a watch from now on, on a connection of its own."""
        connection = self._connect()
        connection.request("GET", f"{path}{'&' if '?' in path else '?'}watch=true")
        answer = connection.getresponse()
        while line := answer.readline():
            event = json.loads(line)
            yield event["type"], event["object"]
