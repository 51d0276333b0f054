#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make lint finds what it is there to find.
. "$(dirname "$0")/../lib.sh"

# tree PATH CONTENT...: a file in a tree of its own
tree() {
	local path=$TEST_DIR/tree/$1
	mkdir -p "$(dirname "$path")"
	printf '%s\n' "${@:2}" >"$path"
}
fresh() {
	rm -rf "$TEST_DIR/tree"
	mkdir -p "$TEST_DIR/tree"
}
lint() { env -u BUILD "$TOP/tests/lint" --top "$TEST_DIR/tree" "$@"; }

test_takes_includes_that_follow_the_arrows() {
	fresh
	tree base/a.c '#include "base/a.h"' '#include <liburing.h>'
	tree rpc/a.c '#include "base/a.h"' '#include <grpc/grpc.h>' '#include "proto/x.pb-c.h"'
	tree target/a.c '#include "base/a.h"'
	tree blockd/a.c '#include "target/a.h"' '# include "rpc/a.h"' '#include "proto/x.pb-c.h"'
	tree volume/a.c '#include "initiator/a.h"' '#include "rpc/a.h"' '#include <sqlite3.h>'
	tree csi/a.c '#include "volume/a.h"' '#include "rpc/a.h"'
	tree cli/a.c '#include "volume/a.h"' '#include "base/a.h"'
	tree union/a.c '#include "union/a.h"' '#include "base/a.h"'
	tree tests/a.c '#include "blockd/a.h"' '#include <grpc/grpc.h>'
	tree perf/a.c '#include "target/a.h"'
	lint arrows
}

# refused FROM INCLUDE: in a tree of this one file, with its line
refused() {
	fresh
	tree "$1" '/* first */' "$2"
	fails 1 "$1:2: " lint arrows
}

test_refuses_an_include_against_an_arrow() {
	refused base/a.c '#include "rpc/rpc.h"'
	refused base/a.h '#include "volume/volume.h"'
	refused rpc/a.c '#include "target/target.h"'
	refused target/a.c '#include "blockd/extent/extent.h"'
	refused target/a.c '#include "rpc/rpc.h"'
	refused initiator/a.c '#include "target/target.h"'
	refused initiator/a.c '#include "proto/blockd.pb-c.h"'
	refused union/a.c '	#	include "initiator/initiator.h"'
	refused volume/a.c '#include "target/target.h"'
	refused volume/a.c '#include "blockd/extent/extent.h"'
	refused cli/a.c '#include "rpc/rpc.h"'
	refused cli/a.c '#include "csi/csi.h"'
	refused csi/a.c '#include "target/target.h"'
	refused blockd/a_test.c '#include "volume/volume.h"'
}

# objects: the Makefile of a tree whose "programs" are its objects
objects() {
	tree Makefile 'programs:' '	@for f in $$(find . -name "*.c" | cut -c3-); do \' \
		'	mkdir -p build/obj/$$(dirname $$f); gcc -I. -c -o build/obj/$${f%.c}.o $$f || exit 1; done'
}

# going_up PATH CONTENT... : "rooms" refuses the tree, in which PATH is last
going_up() {
	tree "$@"
	fails 1 "$1:1: uses " lint rooms
}

test_refuses_what_goes_up_the_order_of_rooms() {
	fresh
	objects
	tree csi/csi.h 'int csi_all(void);'
	tree csi/call/call.h 'int call(void);'
	tree csi/call/call.c '#include "csi/call/call.h"' '#include "csi/csi.h"' 'int call(void) { return 0; }'
	tree csi/node/node.h 'int node(void);'
	tree csi/node/node.c '#include "csi/call/call.h"' 'int node(void); int node(void) { return call(); }'
	lint rooms
	going_up csi/call/up.c '#include "csi/node/node.h"' 'int up;'
	rm "$TEST_DIR/tree/csi/call/up.c"
	going_up csi/call/up.c 'int node(void); int up(void); int up(void) { return node(); }'
	rm "$TEST_DIR/tree/csi/call/up.c"
	tree csi/call/up_test.c '#include "csi/node/node.h"' 'int up;'
	tree csi/testkit/up.c '#include "csi/node/node.h"' 'int up;'
	lint rooms
	tree csi/attic/a.c '#include "csi/call/call.h"' 'int a;'
	fails 1 'csi/attic/a.c:1: no room csi/attic/' lint rooms
}

test_refuses_a_figure_that_became_worse() {
	fresh
	objects
	tree csi/a.c 'int a(void);' 'int b(void);' 'static int say(void)' '{' '	return 1;' '}' \
		'int a(void)' '{' '	return say();' '}'
	mkdir "$TEST_DIR/tree/tests"
	(cd "$TEST_DIR/tree" && make -s programs && env -u BUILD "$TOP/tests/house" --record)
	lint house
	worse() { fails 1 "csi: $1 " lint house; }
	# a longer function
	tree csi/b.c 'int b(void);' 'int b(void)' '{' '	int i = 0;' '	i++;' '	return i;' '}'
	worse max
	# a name with two meanings
	tree csi/b.c 'int b(void);' 'static int say(void)' '{' '	return 2;' '}' \
		'int b(void)' '{' '	return say();' '}'
	worse names
	# a circle
	tree csi/b.c 'int a(void);' 'int b(void);' 'int b(void)' '{' '	return a();' '}'
	lint house
	tree csi/a.c 'int a(void);' 'int b(void);' 'int a(void)' '{' '	return b();' '}'
	worse circle
	tree csi/a.c 'int a(void);' 'int a(void)' '{' '	return 1;' '}'
	# a sentence that is read twice
	tree csi/b.c '/* Who calls this waits. */' 'int b(void);' 'int b(void)' '{' '	return 2;' '}'
	worse prose
	# a folder too full
	tree csi/b.c 'int b;'
	local i
	for i in {1..28}; do tree "csi/h$i.h" ""; done
	lint house
	tree csi/h29.h ""
	worse files
}

test_refuses_a_library_outside_its_folder() {
	refused blockd/a.c '#include <grpc/grpc.h>'
	refused target/a.c '#include <liburing.h>'
	refused cli/a.c '#include <sqlite3.h>'
}

test_refuses_an_include_without_its_folder() {
	refused base/a.c '#include "error.h"'
	refused base/a.c '#include "../volume/volume.h"'
}

test_refuses_c_in_a_folder_the_table_does_not_know() {
	fresh
	tree helpers/a.c '#include "base/error.h"'
	fails 1 'no C belongs in helpers/' lint arrows
}

test_refuses_what_clang_format_would_change() {
	need clang-format
	fresh
	cp "$TOP/.clang-format" "$TEST_DIR/tree"
	tree base/a.c 'int a(void);'
	lint format
	tree base/b.c 'int  a( void );'
	fails 1 'base/b.c: clang-format would change' lint format
}

# The flags come from the Makefile: the tree has one of its own.
makefile() {
	tree Makefile 'generated:' 'lint-flags:' '	@echo -std=gnu17 -I.'
	mkdir -p "$TEST_DIR/tree/tests"
	cp "$TOP/tests/lint" "$TEST_DIR/tree/tests"
}

test_refuses_a_header_that_needs_another_before_it() {
	fresh
	makefile
	tree base/a.h '#include <stdint.h>' 'uint32_t a(void);'
	lint headers
	tree base/b.h 'uint32_t b(void);'
	fails 1 'base/b.h:1:1: error: unknown type name' lint headers
}

test_refuses_a_script_that_does_not_parse() {
	fresh
	tree tests/good.sh 'echo x'
	tree tests/run '#!/bin/bash' 'echo x'
	lint shell
	tree tests/bad '#!/bin/bash' 'if true; then'
	fails 1 'tests/bad: line' lint shell
}

test_refuses_what_cppcheck_finds() {
	need cppcheck
	fresh
	tree base/a.c 'int a(void);' 'int a(void)' '{' '	int b[2] = { 0 };' \
		'	return b[2];' '}'
	fails 1 'arrayIndexOutOfBounds' lint cppcheck
}

test_refuses_what_clang_tidy_finds_and_remembers_what_passed() {
	need clang-tidy clang make
	fresh
	cp "$TOP/.clang-tidy" "$TEST_DIR/tree"
	makefile
	tree base/a.h 'int a(int *p);'
	tree base/a.c '#include "base/a.h"' 'int a(int *p)' '{' '	return *p;' '}'
	lint tidy
	[ -s "$TEST_DIR/tree/build/lint/tidy/base_a.c.ok" ]
	tree base/a.c '#include "base/a.h"' 'int a(int *p)' '{' '	if (!p)' \
		'		return *p;' '	return 0;' '}'
	fails 1 'core.NullDereference' lint tidy
	[ ! -e "$TEST_DIR/tree/build/lint/tidy/base_a.c.ok" ]
	# Not remembered as passed, and a changed header is looked at again.
	fails 1 'core.NullDereference' lint tidy
	tree base/a.c '#include "base/a.h"' 'int a(int *p)' '{' '	return b(p);' '}'
	tree base/a.h 'int a(int *p);' 'static inline int b(int *p)' '{' \
		'	return p ? *p : 0;' '}'
	lint tidy
	tree base/a.h 'int a(int *p);' 'static inline int b(int *p)' '{' \
		'	return p ? 0 : *p;' '}'
	fails 1 'core.NullDereference' lint tidy
}

test_takes_what_clang_tidy_cannot_know() {
	need clang-tidy clang make
	fresh
	cp "$TOP/.clang-tidy" "$TEST_DIR/tree"
	makefile
	mkdir "$TEST_DIR/tree/base"
	cat >"$TEST_DIR/tree/base/a.c" <<-'END'
		#include <stdatomic.h>
		#include <stdlib.h>
		struct x { atomic_int refs; int n; };
		int fill(int *ret);
		int work(void);
		int a(void);
		int b(void);
		int c(struct x *x);
		static void x_unref(struct x *x)
		{
			if (atomic_fetch_sub(&x->refs, 1) == 1)
				free(x);
		}
		static void done(void *p)
		{
			free(*(void **)p);
		}
		int a(void)
		{
			int n;
			int r = work();

			if (r == 0)
				r = fill(&n);
			if (r < 0)
				return r;
			return n + 1;
		}
		int b(void)
		{
			__attribute__((cleanup(done))) char *p = malloc(1);

			if (!p)
				return 1;
			*p = 1;
			return work();
		}
		int c(struct x *x)
		{
			x_unref(x);
			return x->n;
		}
	END
	lint tidy
	# But the same without those reasons is found.
	sed -i 's/r < 0/r == -5/' "$TEST_DIR/tree/base/a.c"
	fails 1 'garbage value' lint tidy
	sed -i 's/r == -5/r < 0/; s/x_unref/x_end/' "$TEST_DIR/tree/base/a.c"
	fails 1 'after it is freed' lint tidy
}

test_an_unknown_step_is_refused() {
	fails 2 "no step 'nothing'" "$TOP/tests/lint" nothing
}

test_refuses_what_a_test_says_in_vain() {
	local line
	for line in '! false' '! a | b' '! a 2>/dev/null'; do
		fresh
		tree tests/a.sh 'f() {' "	$line" '	true' '}'
		fails 1 "tests/a.sh:2: never fails:" lint shell
		tree tests/a.sh 'f() {' "	$line || false" '	true' "	$line" '}'
		lint shell
	done
}

# counted COUNT PATH CONTENT...: so many findings of tests/prose in the file
counted() {
	local found
	fresh
	tree "${@:2}"
	found=$(cd "$TEST_DIR/tree" && "$TOP/tests/prose" "$2")
	[ "$found" = "$1 ${2%%/*}" ] || fail "$2: '$found' in: ${*:3}"
}

test_counts_prose_that_leads_astray() {
	local long='The server of this branch answers each of the calls of its clients in the order in'
	long+=' which they came to it, and sends all the answers at once.'
	counted 1 base/a.c '/* Who asks waits. */'
	counted 1 base/a.c 'int a; /* What is left is freed. */'
	counted 2 base/a.c '/*' ' * Free it. Whoever waits' ' * is woken.' ' */'
	counted 1 base/a.c '// Take the first' '// of such a list.'
	counted 1 base/a.c '/* No buffer can be had. */'
	counted 1 base/a.c '/* It waits. */'
	counted 1 base/a.h "/* $long */"
	counted 1 tests/a.sh '# They wait.' 'true'
	counted 1 docs/a.md "$long"
	counted 2 docs/a.md '- What was sent is kept.' '' '| a | whoever asks |'
}

test_counts_no_code_and_no_plain_prose() {
	local long='one two three four five six seven eight nine ten eleven twelve'
	long="$long $long $long"
	counted 0 base/a.c 'char *a = "/* It waits. */";' "/* $long */" '/* Wait for it. */'
	counted 0 docs/a.md 'Text.' '' '```' "whoever $long" '```' '' "| $long |" '' "    $long"
	counted 0 docs/a.md "Run \`$long\`. What is a node?" '[It](is/had)'
}

run_tests "$@"
