#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# docs/first-cluster.md, as it is written: three hosts with network, files and a
# file system of their own each, and an etcd.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
. "$TOP/tests/etcd_lib.sh"
need_root
need etcd etcdctl losetup mkfs.ext4 openssl

C=$TEST_DIR/c

# host N COMMAND...: as root of host N would type it
host() { nsenter -t "$(cat "$C/host$1/keeper.pid")" -m -n "${@:2}"; }

# What host N has for itself. A process keeps its namespaces.
host_begin() { # N
	local dir=$C/host$1
	mkdir -p "$dir"
	truncate -s 640M "$dir/disk"
	mkfs.ext4 -q -F "$dir/disk"
	mkdir "$dir/etc" "$dir/lib" "$dir/work.etc" "$dir/work.lib"
	nsenter --net="/run/netns/$CLUSTER_NET$1" unshare -m bash -ec '
		overlay() { mount -t overlay overlay -o "lowerdir=$1,upperdir=$2,workdir=$3" "$1"; }
		overlay /etc "$0/etc" "$0/work.etc"
		overlay /var/lib "$0/lib" "$0/work.lib"
		mount -t tmpfs tmpfs /run
		mount -t tmpfs tmpfs /srv

		mkdir /srv/fast /srv/data
		mount -o loop "$0/disk" /srv/fast
		rm -rf /srv/fast/lost+found
		echo $$ >"$0/keeper.new"
		mv "$0/keeper.new" "$0/keeper.pid"
		exec sleep infinity' "$dir" &
	at_exit kill $!
	eventually 30 [ -s "$dir/keeper.pid" ]
}

# The two commands that "cluster init" and "cluster join" print where there is no
# systemd, kept running.
services_begin() { # N FILE
	local line n=0
	grep -q "keep these two running" "$2"
	while read -r line; do
		n=$((n + 1))
		nsenter -t "$(cat "$C/host$1/keeper.pid")" -m -n bash -c "exec $line" >>"$C/host$1/service$n.log" 2>&1 &
		echo $! >"$C/host$1/service$n.pid"
	done < <(sed -n '/keep these two running/,$ { /^  /p }' "$2")
	[ $n = 2 ]
}

# What stands for ssh: "ssh b COMMAND..." runs it on that host.
ssh_make() {
	mkdir -p "$C/bin"
	cat >"$C/bin/ssh" <<-END
		#!/bin/bash
		case \$1 in b) n=2 ;; c) n=3 ;; esac
		exec nsenter -t "\$(cat $C/host\$n/keeper.pid)" -m -n "\${@:2}"
	END
	chmod 755 "$C/bin/ssh"
	PATH=$C/bin:$PATH
}

# The commands of a section of the document: "HOST COMMAND", a line each.
commands() { # TITLE
	awk -v title="## $1" '$0 == title {on = 1; next} /^## / {on = 0}
		on && /^[abc]# / {sub(/# /, " "); print}' "$TOP/docs/first-cluster.md" |
		sed 's/10\.0\.0\./10.77.0./g; s/:2379/:2179/'
}

number() { case $1 in a) echo 1 ;; b) echo 2 ;; c) echo 3 ;; esac; }

# Type each command of a section. $C/said has what the last one printed.
type_section() { # TITLE
	local who command n=0
	while read -r who command; do
		n=$((n + 1))
		echo "$who# $command"
		host "$(number "$who")" bash -o pipefail -c "$command" >"$C/said" 2>"$C/said.err" </dev/null ||
			{ cat "$C/said" "$C/said.err"; return 1; }
		cat "$C/said"
		case $command in
		*"cluster init"*) services_begin 1 "$C/said" ;;
		*"cluster invite b"*--pool*) services_begin 2 "$C/said" ;;
		*"cluster invite c"*) services_begin 3 "$C/said" ;;
		esac
		case $command in
		*"cluster init"* | *--pool*) eventually 60 is_ready "${command##*invite }" ;;
		esac
	done < <(commands "$1")
	[ $n -gt 0 ]
}

is_ready() { # "b --address..." or the words of "cluster init"
	local name=${1%% *}
	[ "$name" != trib ] || name=a
	host 1 trib node list | grep -qE "^$name +ready"
}

say_more() {
	local log
	for log in "$C"/host?/*.log; do
		echo "--- $log"
		tail -n 8 "$log" | cut -c -300
	done
}

end_all() {
	local i n
	for i in 1 2 3; do
		host $i trib umount --force data
		for n in 2 1; do
			signal_daemon "$C/host$i/service$n.pid" TERM ""
		done
		host $i umount /srv/fast
	done
	etcd_signal 1 KILL
	umount -l "$ETCD_DIR/data"
	for i in sw 1 2 3; do ip netns del "$CLUSTER_NET$i"; done
}

begin() {
	local i
	cluster_network "$C" 3
	at_exit end_all
	ip -n "${CLUSTER_NET}sw" addr add 10.77.0.9/24 dev br0
	ip -n "${CLUSTER_NET}sw" link set lo up
	etcd_begin "$C/etcd" "${CLUSTER_NET}sw" 10.77.0.9 1
	etcd_start 1
	etcd_well
	ssh_make
	for i in 1 2 3; do host_begin $i; done
}

# The certificate that blockd of host N shows now.
shown() { # N
	# The server ends it: we show no certificate.
	(host 1 openssl s_client -connect "10.77.0.$1:10810" -alpn h2 </dev/null 2>/dev/null || true) |
		openssl x509 -noout -serial
}

test_the_document_is_true() {
	local before
	begin
	type_section "Five commands"
	# More than a host has, and nothing of it on one host only.
	host 1 bash -ec 'cd /srv/data
		for i in $(seq 14); do head -c 40M /dev/urandom >$i; done
		sha256sum [0-9]* >sums
		sync -f . [0-9]* sums'
	[ "$(host 1 df -BM --output=used /srv/data | tail -n 1 | tr -dc 0-9)" -gt 540 ]
	type_section "Look at it"
	grep -q "^ok  *node b" "$C/said"
	# Neither a certificate nor a volume is in the way of the other.
	before=$(shown 2)
	type_section "Renewing certificates"
	[ "$(shown 2)" != "$before" ]
	grep -q "is good until" "$C/said" # that of a is new, too
	host 1 trib umount data --quiet
	host 2 trib mount data /srv/data --quiet
	host 2 sh -c 'cd /srv/data && sha256sum --quiet -c sums'
	host 2 trib umount data --quiet
	# Keys are root's own. An invitation that is typed again changes no settings.
	[ "$(host 2 stat -c %a /etc/tributary/tls/tls.key)" = 600 ]
	host 2 grep -q "^pool = fast=/srv/fast" /etc/tributary/blockd.conf
	# A repeated one also starts what a failed one had not.
	host 1 trib cluster invite b --address 10.77.0.2 | host 2 trib cluster join >"$C/said"
	grep -q "was a host of the cluster already" "$C/said"
	grep -q "keep these two running" "$C/said"
	# Another cluster does not take a host away, and changes nothing on it.
	host 1 sh -c 'echo other >/etc/tributary/other.pem'
	host 1 trib cluster invite b --address 10.77.0.2 \
		--store "etcd:/other,endpoint=http://10.77.0.9:2179,ca=/etc/tributary/other.pem" >"$C/other"
	before=$(shown 2)
	fails 4 "--force" host 2 trib cluster join <"$C/other"
	[ ! -e "$C/host2/etc/tributary/other.pem" ]
	[ "$(shown 2)" = "$before" ]
	# A certificate of another authority is refused.
	host 1 trib pki init --ca "$C/strange" --quiet
	host 1 trib pki issue s --ca "$C/strange" --out "$C/stranger" --quiet
	cp "$C/host1/etc/tributary/tls/ca.crt" "$C/stranger/ca.crt"
	host 1 trib node add b --control tcp:10.77.0.2:10810 --data 10.77.0.2:10809 \
		--tls-ca "$C/stranger/ca.crt" --tls-cert "$C/stranger/tls.crt" \
		--tls-key "$C/stranger/tls.key" 2>"$C/said.err"
	grep -q "refuses our certificate" "$C/said.err"
}

test_words_that_are_missing_or_wrong() {
	fails 2 "--address HOST" command trib cluster init
	fails 2 "--address HOST" command trib cluster invite b
	fails 1 "use etcd" command trib cluster invite b --address 10.0.0.2 --store "local:$TEST_DIR/x"
	fails 1 "without a port" command trib cluster init --store "local:$TEST_DIR/x" --address 10.0.0.2:80
	fails 3 "trib pki init" command trib pki issue x --ca "$TEST_DIR/none" --out "$TEST_DIR/out"
	fails 1 "no invitation" command trib cluster join </dev/null
	echo "ssh: connect to host b port 22: Connection refused" >"$TEST_DIR/not"
	fails 1 "" command trib cluster join "$TEST_DIR/not"
	fails 3 "no certificate" command trib pki show "$TEST_DIR"
}

run_tests "$@"
