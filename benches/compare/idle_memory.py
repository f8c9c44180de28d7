#!/usr/bin/env python3
"""Resident memory a proxy spends per idle client: opens N sessions, each having run one query, and waits.

usage: idle_memory.py PORT PID [N] [USER] [PASSWORD] [DATABASE] [tls]
"""

import base64
import hashlib
import hmac
import os
import resource
import socket
import ssl
import struct
import sys
import time
from pathlib import Path


def receive(s: socket.socket) -> tuple[bytes, bytes]:
    """One message: its tag and its body."""
    head = exactly(s, 5)
    return head[:1], exactly(s, struct.unpack("!I", head[1:])[0] - 4)


def exactly(s: socket.socket, n: int) -> bytes:
    got = b""
    while len(got) < n:
        more = s.recv(n - len(got))
        if not more:
            raise ConnectionError("closed by the proxy")
        got += more
    return got


def send(s: socket.socket, tag: bytes, body: bytes) -> None:
    s.sendall(tag + struct.pack("!I", len(body) + 4) + body)


def scram(s: socket.socket, password: str) -> None:
    """The client's side of SCRAM-SHA-256 (RFC 5802) without channel binding."""
    nonce = base64.b64encode(os.urandom(18)).decode()
    bare = f"n=,r={nonce}"
    first = f"n,,{bare}".encode()
    send(s, b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first)
    _, body = receive(s)
    challenge = body[4:].decode()
    parts = dict(part.split("=", 1) for part in challenge.split(","))
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(parts["s"]), int(parts["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = f"c=biws,r={parts['r']}"
    signature = hmac.digest(hashlib.sha256(client_key).digest(), f"{bare},{challenge},{without_proof}".encode(), "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature))).decode()
    send(s, b"p", f"{without_proof},p={proof}".encode())


def until_ready(s: socket.socket, user: str, password: str) -> None:
    """Reads to ReadyForQuery and answers what is asked on the way."""
    while True:
        tag, body = receive(s)
        if tag == b"E":
            raise ConnectionError(body.replace(b"\0", b" ").decode(errors="replace"))
        if tag == b"Z":
            return
        if tag == b"R":
            method = struct.unpack("!I", body[:4])[0]
            if method == 3:
                send(s, b"p", password.encode() + b"\0")
            elif method == 5:
                inner = hashlib.md5((password + user).encode()).hexdigest()
                send(s, b"p", b"md5" + hashlib.md5(inner.encode() + body[4:8]).hexdigest().encode() + b"\0")
            elif method == 10:
                scram(s, password)


def encrypted(s: socket.socket) -> socket.socket:
    s.sendall(struct.pack("!II", 8, 80877103))
    if s.recv(1) != b"S":
        raise ConnectionError("the proxy offers no TLS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(s)


def session(port: int, user: str, password: str, database: str, tls: bool) -> socket.socket:
    s = socket.create_connection(("127.0.0.1", port), timeout=20)
    if tls:
        s = encrypted(s)
    body = struct.pack("!I", 196608) + f"user\0{user}\0database\0{database}\0\0".encode()
    s.sendall(struct.pack("!I", len(body) + 4) + body)
    until_ready(s, user, password)
    send(s, b"Q", b"select 1\0")
    until_ready(s, user, password)
    return s


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def settled_kib(pid: int) -> int:
    """Waits for the figure to stand still for a second; ten seconds at most."""
    last, since = resident_kib(pid), time.monotonic()
    deadline = since + 10
    while time.monotonic() < min(since + 1, deadline):
        time.sleep(0.1)
        now = resident_kib(pid)
        if now != last:
            last, since = now, time.monotonic()
    return last


def allow_files(clients: int) -> None:
    """Raises the limit on open files, also of processes started from now on, so that so many clients and a few more fit."""
    wanted = clients + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))


def bytes_per_client(port: int, pid: int, clients: int, user: str, password: str, database: str, tls: bool = False) -> tuple[int, int, float]:
    """Resident KiB with one client and with that many more, and the difference per client in bytes."""
    allow_files(clients)
    sessions = [session(port, user, password, database, tls)]
    try:
        before = settled_kib(pid)
        sessions += [session(port, user, password, database, tls) for _ in range(clients)]
        after = settled_kib(pid)
    finally:
        for s in sessions:
            s.close()
    return before, after, (after - before) * 1024 / clients


if __name__ == "__main__":
    given = sys.argv[1:]
    if len(given) < 2:
        sys.exit(__doc__)
    port, pid, clients, user, password, database, tls = [*given, *["", "", "1000", "app", "secret", "app", ""][len(given):]]
    before, after, each = bytes_per_client(int(port), int(pid), int(clients), user, password, database, tls == "tls")
    print(f"{clients} idle clients: {before} KiB -> {after} KiB, {each:.0f} bytes per client")
