"""As much of S3's protocol as a file store uses, with conditional puts, over HTTP, and able to lose its replies.

It can hang, too: it takes a request and does not answer.
"""

import hashlib
import threading
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal, Self
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Fault = Literal["error before", "error after", "drop after"]


class S3Server:
    """One bucket named ``bucket``; `faults` are used up one a put. Reads below the key `hangs_below` hang."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self.faults: list[Fault] = []
        self.hangs_below: str | None = None
        self.hanging = 0
        self.ended = threading.Event()
        self.puts = 0
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"s3": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def options(self) -> dict[str, Any]:
        """What obstore needs to talk to it."""
        return {
            "endpoint": f"http://127.0.0.1:{self._server.server_port}",
            "region": "us-east-1",
            "access_key_id": "id",
            "secret_access_key": "key",
            "client_options": {"allow_http": True, "timeout": "5s"},
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    s3: ClassVar[S3Server]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        attributes = {
            name.lower(): value for name, value in self.headers.items() if name.lower().startswith("x-amz-meta")
        }
        with self.s3.lock:
            self.s3.puts += 1
            fault = self.s3.faults.pop(0) if self.s3.faults else None
            if fault == "error before":
                self._answer(503)
                return
            if self.headers.get("If-None-Match") == "*" and self._key in self.s3.objects:
                self._answer(412)
                return
            self.s3.objects[self._key] = (data, attributes)
        if fault == "error after":
            self._answer(500)
        elif fault == "drop after":
            self.close_connection = True
        else:
            self._answer(200, headers={"ETag": f'"{hashlib.md5(data).hexdigest()}"'})

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            self._list(query.get("prefix", [""])[0])
        else:
            self._object(body=True)

    def do_HEAD(self) -> None:
        self._object(body=False)

    def do_DELETE(self) -> None:
        with self.s3.lock:
            self.s3.objects.pop(self._key, None)
        self._answer(204)

    def do_POST(self) -> None:
        """DeleteObjects, which the client uses even for one."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        keys = [part.split("</Key>")[0] for part in body.split("<Key>")[1:]]
        with self.s3.lock:
            for key in keys:
                self.s3.objects.pop(key, None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""

    @property
    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).removeprefix("/bucket/")

    def _object(self, *, body: bool) -> None:
        below = self.s3.hangs_below
        if below is not None and self._key.startswith(below):
            self.s3.hanging += 1
            self.s3.ended.wait()
            self.close_connection = True
            return
        with self.s3.lock:
            found = self.s3.objects.get(self._key)
        if found is None:
            self._answer(404, body=body)
            return
        data, attributes = found
        headers = {**attributes, "ETag": f'"{hashlib.md5(data).hexdigest()}"', "Last-Modified": formatdate(usegmt=True)}
        if wanted := self.headers.get("Range"):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(data)), len(data) - 1)
            if start >= len(data):
                self._answer(416)
                return
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            self._answer(206, data[start : end + 1], headers=headers, body=body)
        else:
            self._answer(200, data, headers=headers, body=body)

    def _list(self, prefix: str) -> None:
        with self.s3.lock:
            found = sorted((key, len(data)) for key, (data, _) in self.s3.objects.items() if key.startswith(prefix))
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"e"</ETag><Size>{size}</Size></Contents>'
            for key, size in found
        )
        self._answer(200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode())

    def _answer(
        self, status: int, data: bytes = b"", *, headers: dict[str, str] | None = None, body: bool = True
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)
