#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""pingpong.py serve ADDRESS | ask ADDRESS PORT COUNT: how far one is away, in µs.

A request of 32 bytes and an answer of 4112, as of a 4 KiB read, COUNT times; the
median is printed. Runs on any host that has python3.
"""
import socket
import statistics
import sys
import time

ASK, ANSWER = 32, 4112


def take(sock, length):
    while length:
        got = len(sock.recv(length))
        if not got:
            return False
        length -= got
    return True


def serve(address):
    with socket.create_server((address, 0)) as server:
        print(server.getsockname()[1], flush=True)
        sock = server.accept()[0]
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while take(sock, ASK):
            sock.sendall(bytes(ANSWER))


def ask(address, port, count):
    times = []
    with socket.create_connection((address, int(port))) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(int(count)):
            start = time.monotonic_ns()
            sock.sendall(bytes(ASK))
            if not take(sock, ANSWER):
                raise SystemExit("it hung up")
            times.append((time.monotonic_ns() - start) / 1e3)
    print(statistics.median(times))


{"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:])
