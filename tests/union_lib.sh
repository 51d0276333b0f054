# SPDX-License-Identifier: Apache-2.0
# For tests of trib-union, after tests/lib.sh: branches of several kinds below
# $D, and their union at $M.
need_root
need mkfs.ext4 mkfs.xfs getfattr jq
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
PATH=$PATH:$BUILD/test/union/testkit
D=$TEST_DIR
M=$D/mnt
chmod 755 "$D" # the tests act as other users, too
OTHER=(setpriv --reuid 1234 --regid 1234 --clear-groups)
# Somebody without rights runs it, from where they can reach it.
union_as_other() {
	install -m 755 "$BUILD/bin/trib-union" "$D/trib-union"
	"${OTHER[@]}" "$D/trib-union" "$@"
}

loop_fs() { # NAME SIZE MKFS...
	rm -f "$D/$1.img"
	truncate -s "$2" "$D/$1.img"
	"${@:3}" "$D/$1.img" >/dev/null
	mkdir -p "$D/$1"
	mount -o loop,noatime "$D/$1.img" "$D/$1"
	at_exit umount -l "$D/$1"
}

three_branches() {
	loop_fs a 128M mkfs.ext4 -q -m 0
	loop_fs b 320M mkfs.xfs -q
	mkdir -p "$D/c" "$M"
	mount -t tmpfs -o size=256M none "$D/c"
	at_exit umount -l "$D/c"
	rmdir "$D/a/lost+found"
	chmod 777 "$D/a" "$D/b" "$D/c"
}

small_branches() { # two of tmpfs, of the SIZEs given
	mkdir -p "$M"
	local name
	for name in a b; do
		mkdir -p "$D/$name"
		mount -t tmpfs -o "size=$1" none "$D/$name"
		at_exit umount -l "$D/$name"
		shift
	done
}

union() { # OPTIONS BRANCHES
	trib-union -o "${OPTIONS:+$OPTIONS,}log=$D/log,$1" "$2" "$M"
	at_exit union_end "$M"
}
all() { union "$1" "$D/a:$D/b:$D/c"; }

server() { # its pid: not its supervisor's, if it has one
	local dir words only=
	for dir in /proc/[0-9]*; do
		{ mapfile -d '' words <"$dir/cmdline"; } 2>/dev/null || continue
		[ ${#words[@]} -gt 1 ] || continue
		case ${words[0]} in trib-union | */trib-union) ;; *) continue ;; esac
		[ "${words[-1]}" = "$M" ] || continue
		only=${dir#/proc/}
		case ${words[*]} in *--holder-fd=*) break ;; esac
	done
	[ -n "$only" ] && echo "$only"
}

gone() { ! kill -0 "$1" 2>/dev/null; }

stop() {
	local pid
	pid=$(server)
	kill -TERM "$pid"
	eventually 30 gone "$pid"
	! mountpoint -q "$M"
}

ctl() { trib-union --control "$D/ctl" "$@"; }
state() { # BRANCH: NAME, or its path
	timeout 60 trib-union --control "$D/ctl" status |
		jq -r --arg p "$D/${1#"$D/"}" '.branches[] | select(.path == $p).state'
}
is_state() { [ "$(state "$1")" = "$2" ]; }
eio() { fails any "Input/output error" "$@"; }

exchange() { # ONE OTHER: their names
	python3 -c 'import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, os.fsencode(sys.argv[1]), -100, os.fsencode(sys.argv[2]), 2) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))' "$@"
}

stat_of() { getfattr --absolute-names --only-values -n user.tributary.stats "$M" | jq -r ".$1"; }
