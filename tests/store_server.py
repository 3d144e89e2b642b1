"""Serve a folder as Google Cloud Storage, Hugging Face Hub and S3 do, to their own packages.

python -m tests.store_server FOLDER

The first line says the port, each other what was read: the place, and the range of bytes. Whatever
bucket or repository is asked for, it is that folder.
"""

from __future__ import annotations

import json
import re
from hashlib import sha1
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit
from xml.etree import ElementTree as ET

from tests.serving import OfFolder, say, serve

CHANGED = "2026-11-21T12:00:00.000Z"
HUB = "datasets/team/traces"


class Handler(OfFolder, BaseHTTPRequestHandler):
    """Answers what gcsfs, huggingface_hub and s3fs ask."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        url = urlsplit(self.path)
        self.query = dict(parse_qsl(url.query))
        for pattern, answer in ANSWERS:
            if found := re.fullmatch(pattern, url.path):
                place = unquote(found.groupdict().get("place") or "").strip("/")
                return answer(self, self.folder / place, place)
        return self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def do_HEAD(self):
        self.do_GET()

    def do_POST(self):
        self.do_GET()

    def asked_for(self):
        """Read the form that was posted."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Type"] == "application/json":
            return json.loads(content)
        return parse_qs(content.decode())

    def send_json(self, content):
        self.send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def send_file(self, path, place):
        """Send a file, or the range of it that was asked for."""
        content, headers = path.read_bytes(), {"ETag": f'"{state(path)}"', "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        first = int(wanted[1]) if wanted else 0
        last = min(int((wanted and wanted[2]) or len(content)), len(content) - 1)
        if self.command == "GET":
            say(f"{place} {first} {last}")
        if not wanted:
            return self.send(200, content, headers)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        return self.send(206, content[first : last + 1], headers)

    def send(self, code, content, headers=()):
        self.send_response(code)
        for name, value in {**dict(headers), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def list_bucket(handler, _, __):
    prefix = handler.query.get("prefix", "").rstrip("/")
    files, folders = inside(handler.folder, prefix)
    items = [gcs_object(file, handler.folder) for file in files]
    prefixes = [f"{place(folder, handler.folder)}/" for folder in folders]
    handler.send_json({"kind": "storage#objects", "items": items, "prefixes": prefixes})


def describe_object(handler, path, _):
    if path.is_file():
        return handler.send_json(gcs_object(path, handler.folder))
    return handler.send(404, json.dumps({"error": {"code": 404, "message": "none"}}).encode())


def send_object(handler, path, where):
    if handler.query.get("alt") == "media" or not handler.path.startswith("/storage"):
        return handler.send_file(path, where)
    return describe_object(handler, path, where)


def gcs_object(file, root):
    return {
        "kind": "storage#object",
        "bucket": "bucket",
        "name": place(file, root),
        "size": str(file.stat().st_size),
        "generation": str(file.stat().st_mtime_ns),
        "etag": state(file),
        "updated": CHANGED,
        "timeCreated": CHANGED,
    }


def describe_repository(handler, _, __):
    handler.send_json({"id": "team/traces", "sha": "0" * 40, "private": False, "siblings": []})


def describe_paths(handler, _, __):
    paths = [handler.folder / each for each in handler.asked_for()["paths"]]
    handler.send_json([hub_entry(path, handler.folder) for path in paths if path.exists()])


def list_repository(handler, path, _):
    if not path.is_dir():
        return handler.send(404, b"{}", {"X-Error-Code": "EntryNotFound"})
    return handler.send_json([hub_entry(each, handler.folder) for each in sorted(path.iterdir())])


def send_resolved(handler, path, where):
    if path.is_file():
        return handler.send_file(path, where)
    return handler.send(404, b"{}", {"X-Error-Code": "EntryNotFound"})


def hub_entry(path, root):
    is_file = path.is_file()
    return {
        "type": "file" if is_file else "directory",
        "path": place(path, root),
        "oid": state(path),
        "size": path.stat().st_size if is_file else 0,
        "lastCommit": {"id": state(path), "title": "Add", "date": CHANGED},
    }


def list_s3(handler, _, __):
    prefix = handler.query.get("prefix", "").rstrip("/")
    files, folders = inside(handler.folder, prefix)
    answer = ET.Element("ListBucketResult")
    add(answer, Name="bucket", Prefix=prefix, KeyCount=len(files) + len(folders))
    add(answer, MaxKeys=1000, IsTruncated="false")
    for file in files:
        size, etag = file.stat().st_size, f'"{state(file)}"'
        about = ET.SubElement(answer, "Contents")
        add(about, Key=place(file, handler.folder), Size=size, ETag=etag, LastModified=CHANGED)
    for folder in folders:
        common = ET.SubElement(answer, "CommonPrefixes")
        add(common, Prefix=f"{place(folder, handler.folder)}/")
    handler.send(200, ET.tostring(answer), {"Content-Type": "application/xml"})


def send_s3(handler, path, where):
    return handler.send_file(path, where) if path.is_file() else handler.send(404, b"")


def add(element, **texts):
    for name, text in texts.items():
        ET.SubElement(element, name).text = str(text)


def inside(root, prefix):
    """Files and folders that are directly in a folder, or the file itself."""
    path = root / prefix
    found = sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
    return [each for each in found if each.is_file()], [each for each in found if each.is_dir()]


def place(path, root):
    return path.relative_to(root).as_posix()


def state(path):
    return sha1(f"{path} {path.stat().st_mtime_ns}".encode(), usedforsecurity=False).hexdigest()


ANSWERS = [
    (r"/storage/v1/b/bucket/o", list_bucket),
    (r"(/download)?/storage/v1/b/bucket/o/(?P<place>.+)", send_object),
    (rf"/api/{HUB}(/revision/main)?", describe_repository),
    (rf"/api/{HUB}/paths-info/main", describe_paths),
    (rf"/api/{HUB}/tree/main(?P<place>/.*)?", list_repository),
    (rf"/{HUB}/resolve/main/(?P<place>.+)", send_resolved),
    (r"/bucket/?", list_s3),
    (r"/bucket/(?P<place>.+)", send_s3),
]

if __name__ == "__main__":
    serve(Handler)
