# SPDX-License-Identifier: Apache-2.0
"""Clients that log in and then keep still: what a server's idle connections
come from. Of each protocol no more than that takes."""
import socket
import struct

from harness.scratch import Failed

NBD_GO, NBD_ACK = 7, 1
NBD_OPTION_MAGIC = 0x49484156454F5054


def _take(sock, length):
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise Failed("the server hung up")
        data += more
    return data


def nbd_idle(address, export):
    """A socket whose peer has handed @export over (NBD_OPT_GO)."""
    sock = socket.create_connection(address)
    _take(sock, 18)
    name = export.encode()
    sock.sendall(struct.pack(">IQIII", 3, NBD_OPTION_MAGIC, NBD_GO, 4 + len(name) + 2,
                             len(name)) + name + struct.pack(">H", 0))
    while True:
        _, _, kind, length = struct.unpack(">QIII", _take(sock, 20))
        _take(sock, length)
        if kind == NBD_ACK:
            return sock
        if kind & 1 << 31:
            raise Failed(f"NBD: '{export}' is refused ({kind:#x})")


def iscsi_idle(address, target, number):
    """A socket with a session in full feature phase (RFC 7143 6)."""
    sock = socket.create_connection(address)
    keys = {"InitiatorName": "iqn.2000-01.perf:idle", "TargetName": target,
            "SessionType": "Normal", "HeaderDigest": "None", "DataDigest": "None"}
    text = b"".join(f"{key}={value}\0".encode() for key, value in keys.items())
    # A Login Request that goes from operational negotiation to full feature.
    sock.sendall(struct.pack(">BBBBB3s6sHIHHII16x", 0x43, 0x87, 0, 0, 0,
                             len(text).to_bytes(3, "big"),
                             b"\x80\0\0\0" + number.to_bytes(2, "big"),
                             0, 1, 0, 0, 1, 0) + text + bytes(-len(text) % 4))
    answer = _take(sock, 48)
    _take(sock, (int.from_bytes(answer[5:8], "big") + 3) & ~3)
    if answer[0] & 63 != 0x23 or answer[36] or answer[1] != 0x87:
        raise Failed(f"iSCSI: the login at {target} is refused ({answer[36]}.{answer[37]})")
    return sock
