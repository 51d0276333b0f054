#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A small client with extended headers: nbd_extended.py PORT EXPORT.

The export has 6 TiB of zeroes and is left so. Each answer is checked to the
last field.
"""
import socket
import struct
import sys

ALLOCATION = b"base:allocation"
PAYLOAD, FAST_ZERO = 32, 16
READ, WRITE, DISC, FLUSH, TRIM, CACHE, ZEROES, STATUS = range(8)
SIZE = 6 << 40


class Client:
    def __init__(self, port, name):
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.settimeout(120)
        self.cookie = 0x1122334455660000
        assert self.get(18) == b"NBDMAGICIHAVEOPT\0\3"
        self.sock.sendall(b"\0\0\0\3")
        assert self.option(11, b"") == [(1, b"")]
        # Structured replies come too late.
        assert self.option(8, b"")[-1][0] == (1 << 31) + 10
        named = struct.pack(">I", len(name)) + name
        answer = self.option(
            10, named + struct.pack(">II", 1, len(ALLOCATION)) + ALLOCATION)
        assert answer[0][0] == 4 and answer[0][1][4:] == ALLOCATION
        self.context, = struct.unpack(">I", answer[0][1][:4])
        answer = self.option(7, named + b"\0\0")
        infos = {struct.unpack(">H", data[:2])[0]: data[2:]
                 for kind, data in answer if kind == 3}
        size, self.flags = struct.unpack(">QH", infos[0])
        assert size == SIZE
        assert self.flags & (1 << 10) and self.flags & (1 << 12)

    def get(self, length):
        data = b""
        while len(data) < length:
            more = self.sock.recv(length - len(data))
            assert more, "the server has closed"
            data += more
        return data

    def option(self, number, data):
        self.sock.sendall(b"IHAVEOPT" + struct.pack(">II", number, len(data)) + data)
        replies = []
        while not replies or replies[-1][0] in (2, 3, 4):
            magic, which, kind, length = struct.unpack(">QIII", self.get(20))
            assert magic == 0x3e889045565a9 and which == number
            replies.append((kind, self.get(length)))
        return replies

    def call(self, command, offset, length, flags=0, payload=b""):
        """Returns the chunk type and its payload: one chunk is all of it."""
        self.cookie += 1
        self.sock.sendall(struct.pack(
            ">IHHQQQ", 0x21e41c71, flags, command, self.cookie, offset, length) + payload)
        magic, done, kind, cookie, at, size = struct.unpack(">IHHQQQ", self.get(32))
        assert (magic, done, cookie, at) == (0x6e8a278c, 1, self.cookie, offset)
        return kind, self.get(size)

    def good(self, *args, **more):
        assert self.call(*args, **more) == (0, b""), args

    def bad(self, error, *args, **more):
        kind, data = self.call(*args, **more)
        assert kind == 0x8001 and struct.unpack(">I", data[:4])[0] == error, (kind, data)

    def extents(self, data):
        context, count = struct.unpack(">II", data[:8])
        assert context == self.context and len(data) == 8 + 16 * count
        return [struct.unpack_from(">QQ", data, 8 + 16 * i) for i in range(count)]


def main():
    c = Client(int(sys.argv[1]), sys.argv[2].encode())
    kind, data = c.call(STATUS, 0, SIZE)
    assert kind == 6 and c.extents(data) == [(SIZE, 3)], (kind, data)
    c.good(WRITE, 5 << 40, 4096, PAYLOAD, b"a" * 4096)
    c.good(WRITE, (5 << 40) + 4096, 4096, 0, b"b" * 4096)
    kind, data = c.call(READ, 5 << 40, 8192)
    assert kind == 1 and data == struct.pack(">Q", 5 << 40) + b"a" * 4096 + b"b" * 4096
    ids = struct.pack(">QI", SIZE, c.context)
    kind, data = c.call(STATUS, 0, len(ids), PAYLOAD, ids)
    assert kind == 6
    assert c.extents(data) == [(5 << 40, 3), (8192, 0), ((1 << 40) - 8192, 3)], data
    c.bad(22, STATUS, 0, 12, PAYLOAD, struct.pack(">QI", SIZE, c.context + 1))
    c.bad(22, STATUS, 0, 8, PAYLOAD, struct.pack(">Q", SIZE))
    c.bad(22, TRIM, 0, 3, PAYLOAD, b"xyz")
    c.bad(28, ZEROES, 1, SIZE)
    c.bad(22, READ, 0, 5 << 32)
    c.good(CACHE, 5 << 40, 1 << 40)
    c.good(ZEROES, 0, SIZE, FAST_ZERO)      # all of it, in one request
    c.good(TRIM, 0, SIZE)
    c.good(FLUSH, 0, 0)
    kind, data = c.call(STATUS, 0, SIZE)
    assert c.extents(data) == [(SIZE, 3)], data
    c.sock.sendall(struct.pack(">IHHQQQ", 0x21e41c71, 0, DISC, 1, 0, 0))
    assert c.sock.recv(1) == b""


if __name__ == "__main__":
    main()
