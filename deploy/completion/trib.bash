# SPDX-License-Identifier: Apache-2.0
# bash completion for trib(1): the command itself knows what may follow.

_trib() {
	local word=${COMP_WORDS[COMP_CWORD]}
	local before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")

	mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" complete -- "${before[@]}" "$word" 2>/dev/null)
	# Nothing of ours fits: perhaps a path.
	[ ${#COMPREPLY[@]} -gt 0 ] || compopt -o default
}

complete -F _trib trib
