# SPDX-License-Identifier: Apache-2.0
"""What would be used instead of a volume: each gives a directory on the client
host, with its data on the same disks. What can't be had on this kernel or
these hosts raises CannotRun with the reason; all of it ends with the suite.

Block servers are used under one client, trib-nbd and a loop device with ext4 on
it, as our own remote volumes are where the kernel has no NBD client, so that
servers alone differ; nbdkit also under its own, nbdfuse. iSCSI has no client without
the kernel's but QEMU's: its qemu-nbd makes an NBD export of the target's disk. (Its
FUSE export, of version 7.2, mixes up writes that are on their way at once.)
"""
import dataclasses
import os
import re

from harness.scratch import CannotRun, Failed, wait_for
from nodes.packages import Package, Root, installed
from unions import sides as unions

NBD_SERVER = Package("nbd-server", "nbd-server", alone=True)
TGT = Package("tgt", "tgt", alone=True)
SSHFS = Package("sshfs", "sshfs", alone=True)
SSHD = Package("ssh", "openssh-server")
GLUSTER = Package("glusterfs", "glusterfs-server")
PACKAGES = (NBD_SERVER, TGT, SSHFS, SSHD, GLUSTER)

PORTS = {"nbd-server": 21820, "nbdkit": 21821, "qemu-nbd": 21822, "tgt": 21823, "sshd": 21824,
         "nbdfuse": 21825, "tgt bridge": 21826}
EXPORT = "disk"
TGT_TARGET = "iqn.2000-01.perf:disk"


@dataclasses.dataclass
class Side:
    """Where works are done."""
    name: str        # what it is, with its version
    directory: str   # on the client host
    clients: list    # that serve it there, and
    servers: list    # on other hosts (Running)
    behind: list     # [host, path] of what is on the disk


def listening(host, port):
    """Someone takes connections at that port of @host."""
    return lambda: bool(host.script(
        f"ss -Hltn 'sport = :{port}' 2>/dev/null || netstat -ltn | grep ':{port} ' || :").strip())


def ready(server, what, condition, seconds=30):
    wait_for(f"{server.host.name}: {what} comes up",
             lambda: server.alive() and condition(), seconds)


def serve(client, name, argv, point):
    """A FUSE server on the client, which ends when @point is unmounted."""
    server = client.start(argv, name + "-client.log")
    client.unmount_later(point)
    ready(server, name, lambda: client.script('mountpoint -q "$1" && echo yes || :', point) != "")
    return server


def disk_file(host, name, size):
    path = host.path(name)
    host.run(["fallocate", "-l", str(size), path])
    return path


# ---- file systems ----

def own(client, _nodes, _size):
    """The client's own disk."""
    kind = client.run(["stat", "-f", "-c", "%T", client.base]).strip()
    folder = client.folder("own")
    return Side(f"{kind.replace('ext2/ext3', 'ext4')} itself", folder, [], [], [[client, folder]])


def merged(client, name, branches, title="mergerfs"):
    """mergerfs over @branches of the client host."""
    if client.here:
        version = unions.mergerfs_name()
        argv = unions.mergerfs(branches, "")[:-1]
    else:
        version = title
        program = installed(client, "mergerfs")
        if not program:
            raise CannotRun(f"{client.name} needs mergerfs")
        argv = [program, *unions.mergerfs(branches, "")[1:-1]]
    point = client.folder(name)
    server = serve(client, name, [*argv, point], point)
    return Side(version.replace("mergerfs", title, 1), point, [server], [], [])


def mergerfs(client, branches):
    """Over a folder of its own on each of @branches, the directories of a union on @client."""
    points = []
    for i, branch in enumerate(branches):
        # mergerfs goes there as its caller, so all may pass.
        points.append(client.folder(f"mergerfs-branch{i}"))
        own_folder = os.path.join(branch, "of-mergerfs")
        client.run(["mkdir", own_folder])
        client.mount(["mount", "--bind", own_folder], points[-1])
    client.run(["chmod", "711", client.base])
    if client.here:
        os.chmod(os.path.dirname(client.base), 0o711)
    return merged(client, "mergerfs", points)


def _sshd(node, client):
    """The node's sshd and a key of the client's: a port for the node."""
    root = Root(node, SSHD, "sshd")
    key, folder = client.path("ssh-key"), node.folder("sshd")
    client.script('[ -e "$1" ] || ssh-keygen -q -t ed25519 -N "" -f "$1"', key)
    node.write(folder + "/keys", client.run(["cat", key + ".pub"]))
    node.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder + "/host"])
    node.write(folder + "/config", "\n".join([
        f"Port {PORTS['sshd']}", f"ListenAddress {node.address}", f"HostKey {folder}/host",
        f"AuthorizedKeysFile {folder}/keys", "PidFile none", "StrictModes no", "UsePAM no",
        "PermitRootLogin yes", "Subsystem sftp internal-sftp", ""]))
    # Its user for what is not to be trusted, and that one's home.
    node.script('mkdir -p "$1/run/sshd"; grep -q ^sshd: "$1/etc/passwd" || '
                'echo sshd:x:991:65534::/run/sshd:/usr/sbin/nologin >>"$1/etc/passwd"',
                root.folder or "/")
    server = node.start(root.command("/usr/sbin/sshd", "-D", "-e", "-f", folder + "/config"),
                        "sshd.log")
    ready(server, "sshd", listening(node, PORTS["sshd"]))
    return server, key


def _sshfs_mount(client, node):
    """A directory of @node's disk on the client."""
    server, key = _sshd(node, client)
    there, point = node.folder("sshfs"), client.folder("sshfs-" + node.name)
    ssh = (f"ssh -F none -i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
           f"-p {PORTS['sshd']}")
    program = SSHFS.program(client, "sshfs")
    mount = serve(client, "sshfs-" + node.name,
                  [*program, "-f", "-o", f"allow_other,default_permissions,ssh_command={ssh}",
                   f"root@{node.address}:{there}", point], point)
    version = re.search(r"SSHFS version (\S+)", client.run([*program, "--version"])).group(1)
    return Side("sshfs " + version, point, [mount], [server], [[node, there]])


def sshfs(client, nodes, _size):
    """Of the first node."""
    return _sshfs_mount(client, nodes[0])


def _merge(client, parts, name, title):
    """mergerfs over a folder of its own in each of these."""
    branches = [os.path.join(part.directory, "merged") for part in parts]
    client.run(["mkdir", *branches])
    side = merged(client, name, branches, title)
    for part in parts:
        side.clients += part.clients
        side.servers += part.servers
        side.behind += part.behind
    return side


def mergerfs_over_sshfs(client, nodes, _size, first):
    """Of each node; @first is the one that sshfs() has mounted already."""
    parts = [first] + [_sshfs_mount(client, node) for node in nodes[1:]]
    return _merge(client, parts, "merged-sshfs", "mergerfs over sshfs,")


def _kernel_nfs(host, module):
    return host.script('modprobe -q "$1" 2>/dev/null; '
                       'grep -qw "$1" /proc/filesystems /proc/modules && echo yes || :',
                       module) != ""


def _nfs_mount(client, node):
    """A directory of the node's disk, exported by its kernel, on the client."""
    there, point = node.folder("nfs"), client.folder("nfs-" + node.name)
    export = f"{client.address}:{there}"
    node.later('exportfs -u "$1"; exportfs -f', export)
    node.run(["exportfs", "-o", "rw,insecure,no_root_squash,no_subtree_check,fsid=77", export])
    client.mount(["mount", "-t", "nfs", "-o", "vers=4.2", f"{node.address}:{there}"], point)
    return Side("NFS 4.2 of the kernel", point, [], [], [[node, there]])


def _need_nfs(client, nodes):
    if not _kernel_nfs(client, "nfs"):
        raise CannotRun(f"the kernel of {client.name} has no NFS client")
    if client.here:
        raise CannotRun("namespaces would share one NFS server, and its exports; --hosts do not")
    for node in nodes:
        if not _kernel_nfs(node, "nfsd"):
            raise CannotRun(f"the kernel of {node.name} has no NFS server")
        if not installed(node, "exportfs"):
            raise CannotRun(f"{node.name} needs exportfs (package nfs-kernel-server)")


def nfs(client, nodes, _size):
    _need_nfs(client, nodes[:1])
    return _nfs_mount(client, nodes[0])


def mergerfs_over_nfs(client, nodes, _size, first):
    _need_nfs(client, nodes)
    parts = [first] + [_nfs_mount(client, node) for node in nodes[1:]]
    return _merge(client, parts, "merged-nfs", "mergerfs over NFS,")


def gluster(client, nodes, _size):
    """A volume distributed over a brick on each node, mounted by its FUSE client."""
    roots, servers = [], []
    for node in nodes:
        root = Root(node, GLUSTER, "glusterd")
        roots.append(root)
        servers.append(node.start(root.command(
            "/usr/sbin/glusterd", "-N", "--log-file", "-",
            f"--xlator-option=management.transport.socket.bind-address={node.address}"),
            "glusterd.log"))
    for node, server in zip(nodes, servers):
        ready(server, "glusterd", listening(node, 24007))
    for node in nodes[1:]:
        roots[0].run("gluster", "--mode=script", "peer", "probe", node.address)
        wait_for("gluster: peers know each other", lambda node=node: any(
            "Peer in Cluster (Connected)" in part for part in
            roots[0].run("gluster", "peer", "status").split("\n\n") if node.address in part), 30)
    behind = [[node, node.folder("brick")] for node in nodes]
    bricks = [f"{node.address}:{path}" for node, path in behind]
    roots[0].run("gluster", "--mode=script", "volume", "create", "perf", "transport", "tcp",
                 *bricks, "force")
    roots[0].run("gluster", "--mode=script", "volume", "start", "perf")
    root = roots[nodes.index(client)] if client in nodes else Root(client, GLUSTER, "glusterfs")
    inside = "/mnt" if root.folder else client.folder("gluster")
    point = root.path(inside)
    mount = serve(client, "glusterfs", root.command(
        "/usr/sbin/glusterfs", "-N", "--log-file=/dev/stderr",
        f"--volfile-server={nodes[0].address}", "--volfile-id=perf", inside), point)
    version = root.run("gluster", "--version").split()[1]
    return Side(f"GlusterFS {version}, distributed", point, [mount], servers, behind)


# ---- block servers ----

def _with_ext4(client, name, file, parts):
    """A loop device over @file, ext4 on it, mounted. @parts are of a Side, without its
    directory."""
    device = client.run(["losetup", "--direct-io=on", "--show", "-f", file]).strip()
    client.later('losetup -d "$1"', device)
    client.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", device])
    point = client.folder(name + "-files")
    client.mount(["mount", device], point)
    return Side(directory=point, **parts)


def _address(host, name):
    return f"{host.address}:{PORTS[name]}"


def _by_trib_nbd(client, name, address, parts):
    point = client.folder(name)
    mount = serve(client, name, [client.built("bin/trib-nbd"), "--address", address,
                                 "--export", EXPORT, "--mount", point], point)
    parts["clients"] = [mount, *parts.get("clients", [])]
    return _with_ext4(client, name, point + "/extent", parts)


def _parts(title, node, disk, server):
    return {"name": title, "servers": [server], "behind": [[node, disk]]}


def nbd_server(client, nodes, size):
    node, disk = nodes[0], disk_file(nodes[0], "nbd-server.disk", size)
    program, config = NBD_SERVER.program(node, "nbd-server"), node.path("nbd-server.conf")
    node.write(config, f"[generic]\nlistenaddr = {node.address}\nport = {PORTS['nbd-server']}\n"
                       f"[{EXPORT}]\nexportname = {disk}\nflush = true\nfua = true\n")
    # nbd-server can only run as a daemon: its namespace ends with us.
    server = node.start(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                         '"$@" && sleep infinity', "sh", *program, "-C", config],
                        "nbd-server.log")
    ready(server, "nbd-server", listening(node, PORTS["nbd-server"]))
    return _by_trib_nbd(client, "nbd-server", _address(node, "nbd-server"),
                        _parts("nbd-server, ext4", node, disk, server))


def _nbdkit_server(node, name, size):
    node.need("nbdkit")
    disk = disk_file(node, name + ".disk", size)
    server = node.start(["nbdkit", "-f", "-i", node.address, "-p", str(PORTS[name]),
                         "file", disk], name + ".log")
    ready(server, name, listening(node, PORTS[name]))
    version = node.run(["nbdkit", "--version"]).split()[1]
    return _parts(f"nbdkit {version}, ext4", node, disk, server)


def nbdkit(client, nodes, size):
    return _by_trib_nbd(client, "nbdkit", _address(nodes[0], "nbdkit"),
                        _nbdkit_server(nodes[0], "nbdkit", size))


def qemu_nbd(client, nodes, size):
    node = nodes[0]
    node.need("qemu-nbd")
    disk = disk_file(node, "qemu-nbd.disk", size)
    server = node.start(["qemu-nbd", "-t", "-f", "raw", "-e", "8", "-b", node.address,
                         "--aio=io_uring", "-p", str(PORTS["qemu-nbd"]), "-x", EXPORT, disk],
                        "qemu-nbd.log")
    ready(server, "qemu-nbd", listening(node, PORTS["qemu-nbd"]))
    version = node.run(["qemu-nbd", "--version"]).split()[1]
    return _by_trib_nbd(client, "qemu-nbd", _address(node, "qemu-nbd"),
                        _parts(f"qemu-nbd {version}, ext4", node, disk, server))


def nbdfuse(client, nodes, size):
    """nbdkit under the FUSE client of its own project."""
    client.need("nbdfuse")
    node, name = nodes[0], "nbdfuse"
    parts, point = _nbdkit_server(node, name, size), client.folder(name)
    mount = serve(client, name, ["nbdfuse", point + "/disk", "nbd://" + _address(node, name)],
                  point)
    parts.update(clients=[mount], name=parts["name"].replace(",", " under nbdfuse,"))
    return _with_ext4(client, name, point + "/disk", parts)


def tgt(client, nodes, size):
    """A qemu-nbd on the client's own host speaks iSCSI to it, and NBD to trib-nbd."""
    client.need("qemu-nbd")
    node, disk = nodes[0], disk_file(nodes[0], "tgt.disk", size)
    socket = "TGT_IPC_SOCKET=" + node.path("tgt.sock")
    server = node.start(["env", socket, *TGT.program(node, "tgtd"), "-f", "--iscsi",
                         f"portal={node.address}:{PORTS['tgt']}"], "tgtd.log")
    ready(server, "tgtd", listening(node, PORTS["tgt"]))
    admin = ["env", socket, *TGT.program(node, "tgtadm"), "--lld", "iscsi", "--tid", "1", "--op"]
    node.run([*admin, "new", "--mode", "target", "-T", TGT_TARGET])
    node.run([*admin, "new", "--mode", "logicalunit", "--lun", "1", "-b", disk])
    node.run([*admin, "bind", "--mode", "target", "-I", "ALL"])
    bridge = client.start(["qemu-nbd", "-t", "-f", "raw", "-e", "8", "--cache=none", "-b",
                           client.address, "-p", str(PORTS["tgt bridge"]), "-x", EXPORT,
                           f"iscsi://{node.address}:{PORTS['tgt']}/{TGT_TARGET}/1"],
                          "tgt-bridge.log")
    ready(bridge, "qemu-nbd", listening(client, PORTS["tgt bridge"]))
    parts = _parts("tgt (iSCSI) through qemu-nbd, ext4", node, disk, server)
    return _by_trib_nbd(client, "tgt", _address(client, "tgt bridge"),
                        {**parts, "clients": [bridge]})


FILE_PEERS = {"own": own, "sshfs": sshfs, "gluster": gluster, "nfs": nfs}
OVER = {"mergerfs over sshfs": ("sshfs", mergerfs_over_sshfs),
        "mergerfs over nfs": ("nfs", mergerfs_over_nfs)}
BLOCK_PEERS = {"nbd-server": nbd_server, "nbdkit": nbdkit, "nbdfuse": nbdfuse,
               "qemu-nbd": qemu_nbd, "tgt": tgt}


def told(measure):
    """What a peer fails at is told, and ends no row."""
    def attempt(number):
        try:
            return measure(number)
        except Failed as e:
            raise CannotRun(str(e)) from e
    return attempt


# A sample of each kind, for a short run.
QUICK = ("own", "sshfs", "nfs", "nbdkit", "qemu-nbd")


def bring_up(client, nodes, size, wanted=None):
    """All peers that can be had, or those of @wanted: sides by name, and [what, why] of
    those that can't. @size bytes is what each block server has."""
    found, skipped = {}, []

    def attempt(name, make, *more):
        try:
            found[name] = make(client, nodes, size, *more)
        except (CannotRun, Failed) as e:
            skipped.append([name, str(e)])

    for name, make in {**FILE_PEERS, **BLOCK_PEERS}.items():
        if wanted is None or name in wanted:
            attempt(name, make)
    for name, (first, make) in OVER.items():
        if wanted is None or name in wanted:
            if first in found:
                attempt(name, make, found[first])
            else:
                skipped.append([name, f"there is no {first} to be merged"])
    return found, skipped
