# SPDX-License-Identifier: Apache-2.0
# For tests of unions that survive their server; after lib.sh. They need pgrep.

# A kernel before 6.9 sends nothing again.
sent_again() {
	local major minor
	IFS=. read -r major minor _ <<<"$(uname -r)"
	[ "$major" -gt 6 ] || { [ "$major" = 6 ] && [ "${minor%%[!0-9]*}" -ge 9 ]; } ||
		skip "this kernel sends no request again (Linux 6.9 does)"
}

# Kill server after server of the union at MOUNTPOINT until told not to: its
# process is in $killing.
kill_servers() { # MOUNTPOINT
	local pid
	while :; do
		sleep "$(printf '0.%03d' $((RANDOM % 100 + 30)))"
		for pid in $(pgrep -f -- "--holder-fd=3 .* $1\$" || true); do kill -9 "$pid" 2>/dev/null || true; done
	done &
	killing=$!
	at_exit kill $killing
}
kill_no_more() { kill "$killing"; wait "$killing" || true; }

# The number of servers killed so far, as the union's log says. A test that wants a
# number goes on until it is reached: the machine decides how long a program takes.
killed_servers() { grep -c "its server ended by signal 9" "$1" || true; } # LOG
servers_are_killed() { [ "$(killed_servers "$1")" -ge "$2" ]; } # LOG NUMBER
