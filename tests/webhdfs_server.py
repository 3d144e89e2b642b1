"""Serve a folder by the protocol of WebHDFS, and say on each line what was asked for.

python -m tests.webhdfs_server FOLDER
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.serving import OfFolder, say, serve


class Handler(OfFolder, BaseHTTPRequestHandler):
    """Answers what fsspec asks of a name node that is its own data node."""

    def do_GET(self):
        url = urlsplit(self.path)
        options = dict(parse_qsl(url.query))
        place = unquote(url.path).removeprefix("/webhdfs/v1/")
        path = self.folder / place
        operation = options["op"]
        part = f"{options.get('offset', 0)} {options.get('length', 0)}"
        say(f"{operation} {place} {part}")
        if not path.exists():
            gone = {"exception": "FileNotFoundException", "message": f"no {place}"}
            self._answer(404, json.dumps({"RemoteException": gone}).encode())
        elif operation == "OPEN":
            offset, length = int(options["offset"]), int(options["length"])
            self._answer(200, path.read_bytes()[offset : offset + length])
        elif operation == "LISTSTATUS":
            found = {"FileStatuses": {"FileStatus": [status(each) for each in path.iterdir()]}}
            self._answer(200, json.dumps(found).encode())
        else:
            self._answer(
                200, json.dumps({"FileStatus": {**status(path), "pathSuffix": ""}}).encode()
            )

    def _answer(self, code, content):
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def status(path):
    return {
        "pathSuffix": path.name,
        "type": "DIRECTORY" if path.is_dir() else "FILE",
        "length": path.stat().st_size,
        "modificationTime": path.stat().st_mtime_ns // 1_000_000,
    }


if __name__ == "__main__":
    serve(Handler)
