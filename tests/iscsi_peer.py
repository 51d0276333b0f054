# SPDX-License-Identifier: Apache-2.0
"""A plain iSCSI initiator for tests: no digests, no R2T for up to 64 KiB of
immediate data, answers taken as they come. What libiscsi can't be told to do:
an ISID of one's own, and writes that nobody waits for."""
import socket
import struct


class Gone(Exception):
    """The target has hung up."""


class Peer:
    def __init__(self, port, target, initiator="iqn.2000-01.org:me",
                 isid=b"\x80abcde", address="127.0.0.1", bad_digests=False):
        self.s = socket.create_connection((address, port), 30)
        self.isid, self.sn, self.tag = isid, 1, 1
        self.digest = b""
        keys = (f"InitiatorName={initiator}\0TargetName={target}\0"
                "AuthMethod=None\0").encode()
        self.login(0x81, keys)
        self.login(0x87, b"ImmediateData=Yes\0InitialR2T=Yes\0"
                         b"FirstBurstLength=65536\0" +
                   (b"DataDigest=CRC32C\0" if bad_digests else b""))
        if bad_digests:  # those of ours; what comes is not looked at
            self.digest = bytes(4)
        self.command(bytes(6))  # power on is told here
        self.answer()

    def put(self, head, data=b""):
        assert len(head) == 48
        try:
            self.s.sendall(head + data + bytes(-len(data) % 4) +
                           (self.digest if data else b""))
        except OSError as e:
            raise Gone from e

    def take(self, n):
        got = b""
        while len(got) < n:
            try:
                part = self.s.recv(n - len(got))
            except ConnectionError as e:
                raise Gone from e
            if not part:
                raise Gone
            got += part
        return got

    def answer(self):
        """The next PDU: its head and its data."""
        head = self.take(48)
        length = int.from_bytes(head[5:8], "big")
        data = self.take((length + 3) // 4 * 4)[:length]
        if data:
            self.take(len(self.digest))
        return head, data

    def login(self, flags, keys):
        self.put(struct.pack(">BBHI6sHIIII16x", 0x43, flags, 0, len(keys),
                             self.isid, 0, 1, 0, self.sn, 0), keys)
        head, _ = self.answer()
        if head[36]:
            raise PermissionError(head[36:38].hex())

    def command(self, cdb, flags=0x81, expected=0, data=b"", lun=0):
        """Say it, and do not wait. Returns its tag."""
        self.tag += 1
        self.put(struct.pack(">BB2xI2sHIIIII16s", 1, flags, len(data),
                             bytes([0, lun]), 0, 0, self.tag, expected,
                             self.sn, 0, cdb.ljust(16, b"\0")), data)
        self.sn += 1
        return self.tag

    def write(self, offset, data):
        return self.command(struct.pack(">BBIBHB", 0x2a, 0, offset // 512, 0,
                                        len(data) // 512, 0),
                            0xa1, len(data), data)

    def read(self, offset, length):
        """Wait for it."""
        self.command(struct.pack(">BBIBHB", 0x28, 0, offset // 512, 0,
                                 length // 512, 0), 0xc1, length)
        got = b""
        while len(got) < length:
            head, data = self.answer()
            assert head[0] == 0x25, head
            got += data
        if not head[1] & 1:  # the status did not come with the data
            self.answer()
        return got

    def status(self, cdb, flags=0x81, expected=0, data=b""):
        """Do it. Returns its status and what it answered, or its sense data
        (behind two bytes that say how much)."""
        self.command(cdb, flags, expected, data)
        got = b""
        while True:
            head, data = self.answer()
            if head[0] == 0x21:
                return head[3], got or data
            got += data
            if head[1] & 1:
                return head[3], got

    def other(self, opcode, flags, tag=0, ttt=0xffffffff, data=b""):
        """Say a PDU that is no command, an immediate one. Returns its head."""
        head = struct.pack(">BB2xI8sIII20x", 0x40 | opcode, flags, len(data),
                           bytes(8), tag, ttt, self.sn)
        self.put(head, data)
        return head

    def rejected(self, head=None):
        """The reason of the Reject that is next, which is of @head."""
        reject, data = self.answer()
        assert reject[0] == 0x3f, reject
        assert len(data) == 48 and head in (None, data), data
        return reject[2]

    def reserve_out(self, action, kind, key, new_key, keep):
        """PERSISTENT RESERVE OUT. Returns its status."""
        return self.status(struct.pack(">BBB2xIB", 0x5f, action, kind, 24, 0),
                           0xa1, 24, struct.pack(">QQ4xB3x", key, new_key,
                                                 keep))[0]

    def reserve_in(self, action):
        """The answer of PERSISTENT RESERVE IN."""
        status, data = self.status(struct.pack(">BB5xHB", 0x5e, action, 256,
                                               0), 0xc1, 256)
        assert status == 0, status
        return data

    def reset(self, function, lun):
        """The response to a task management function."""
        self.tag += 1
        self.put(struct.pack(">BB2xI8sIIII16x", 0x42, 0x80 | function, 0,
                             bytes([0, lun]) + bytes(6), self.tag, 0xffffffff,
                             self.sn, 0))
        return self.answer()[0][2]
