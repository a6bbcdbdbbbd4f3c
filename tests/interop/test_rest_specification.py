"""What judges a catalog's answers lets right ones pass, finds wrong ones, and sees them as they were sent."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.interop.rest_recorder import Recorder
from tests.interop.rest_specification import Exchange, fault, operation_of, operations, unknown_endpoints

SPACES = "/v1/namespaces"
TABLE = "/v1/namespaces/a%1Fb/tables/t"
METADATA = {"format-version": 2, "table-uuid": "0198c2a5-0000-7000-8000-000000000000"}


def answer(method: str, path: str, status: int, value: Any = None, *, content_type: str = "application/json"):
    body = b"" if value is None else json.dumps(value).encode()
    return Exchange(method=method, path=path, status=status, content_type=content_type, body=body)


def error(status: int) -> dict[str, Any]:
    return {"error": {"message": "no", "type": "SomeException", "code": status}}


@pytest.mark.parametrize(
    "exchange",
    [
        answer("GET", "/v1/config", 200, {"defaults": {}, "overrides": {}, "endpoints": ["GET /v1/config"]}),
        answer("GET", SPACES, 200, {"namespaces": [["a"], ["b"]]}),
        answer("GET", SPACES, 200, {"namespaces": [], "next-page-token": "b"}),
        answer("GET", "/v1/prefixed/namespaces", 200, {"namespaces": []}),
        answer("HEAD", TABLE, 204),
        answer("HEAD", TABLE, 404),
        answer("GET", TABLE, 304),
        answer("GET", TABLE, 404, error(404)),
        answer("GET", TABLE, 200, {"metadata-location": "file:/t.json", "metadata": METADATA}),
        answer("POST", TABLE, 200, {"metadata-location": "file:/t.json", "metadata": METADATA}),
        answer("POST", TABLE, 409, error(409)),
        answer("POST", TABLE, 429, error(429)),
        answer("POST", "/v1/tables/rename", 204),
        answer("PATCH", TABLE, 405, error(405)),
        answer("GET", "/v2/config", 404, error(404)),
    ],
    ids=str,
)
def test_answers_of_the_specification_pass(exchange):
    assert fault(exchange) is None


@pytest.mark.parametrize(
    ("exchange", "words"),
    [
        (answer("GET", SPACES, 200, {"namespaces": [], "next-page-token": None}), "None is not of type 'string'"),
        (answer("GET", SPACES, 200, {"namespaces": ["a"]}), "'a' is not of type 'array'"),
        (answer("GET", "/v1/config", 200, {"defaults": {}}), "'overrides' is a required property"),
        (answer("GET", TABLE, 200, {"metadata-location": "file:/t.json"}), "'metadata' is a required property"),
        (answer("POST", TABLE, 200, {"metadata": METADATA}), "'metadata-location' is a required property"),
        (answer("GET", TABLE, 404, {"message": "no"}), "'error' is a required property"),
        (answer("GET", TABLE, 404, error(99)), "99 is less than the minimum"),
        (answer("GET", TABLE, 404), "no JSON"),
        (answer("GET", TABLE, 404, error(404), content_type="text/plain"), "the content type is 'text/plain'"),
        (answer("HEAD", TABLE, 404, error(404)), "a body of"),
        (answer("DELETE", TABLE, 204, {}), "a body of 2 bytes"),
        (answer("DELETE", TABLE, 200, {}), "the specification has no such answer"),
        (answer("GET", "/v1/tables", 200, {}), "the specification has no such answer"),
    ],
    ids=str,
)
def test_answers_that_it_does_not_allow_are_found(exchange, words):
    found = fault(exchange)
    assert found is not None
    assert words in found


def test_a_fixed_part_of_a_path_goes_before_a_parameter():
    found = operation_of(answer("POST", "/v1/tables/rename", 204))
    assert found is not None
    assert found.name == "POST /v1/{prefix}/tables/rename"
    assert len(operations()) == 32


def test_endpoints_are_compared_by_method_and_path():
    known = ["GET /v1/{prefix}/namespaces", "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}"]
    assert unknown_endpoints(known) == []
    assert unknown_endpoints(["PUT /v1/{prefix}/namespaces", "GET /v1/{prefix}/functions"]) != []


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked for."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        said = {"path": self.path, "key": self.headers["Idempotency-Key"], "body": body.decode()}
        sent = json.dumps(said).encode()
        self.send_response(409)
        self.send_header("Content-Type", "application/json")
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_arguments: object) -> None:
        pass


def test_the_recorder_changes_nothing():
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with Recorder(f"http://127.0.0.1:{server.server_port}") as recorder:
                request = urllib.request.Request(
                    f"{recorder.uri}/v1/namespaces/a%1Fb%2Fc/tables?pageToken=%20",
                    data=b"[1]", headers={"Idempotency-Key": "k"}, method="POST",
                )  # fmt: skip
                with pytest.raises(urllib.error.HTTPError) as refused:
                    urllib.request.urlopen(request, timeout=10)
                with refused.value as got:
                    assert json.load(got) == {
                        "path": "/v1/namespaces/a%1Fb%2Fc/tables?pageToken=%20", "key": "k", "body": "[1]",
                    }  # fmt: skip
                    assert got.headers["ETag"] == '"one"'
                (kept,) = recorder.exchanges
                assert (kept.method, kept.path, kept.status) == ("POST", "/v1/namespaces/a%1Fb%2Fc/tables", 409)
                assert len(recorder.faults()) == 1
        finally:
            server.shutdown()
            thread.join()
