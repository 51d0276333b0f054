/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/iscsi/iscsi_record.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

/* A record as iscsiadm 2.1.8 writes it, shortened. */
static const char before[] =
	"# BEGIN RECORD 2.1.8\n"
	"node.name = iqn.2025-01.io.union:v-0:7:0123456789abcdef\n"
	"node.tpgt = 1\n"
	"node.startup = automatic\n"
	"node.session.auth.authmethod = None\n"
	"node.session.auth.chap_algs = MD5\n"
	"node.conn[0].address = 10.0.0.1\n"
	"node.conn[0].port = 3260\n"
	"# END RECORD\n";

static void replaces_what_is_there_and_adds_what_is_not(void **state)
{
	const struct iscsi_setting settings[] = {
		{"node.startup", "manual"},
		{"node.session.auth.authmethod", "CHAP"},
		{"node.session.auth.username", "alice"},
		{"node.session.auth.password", "0x no #number =  21"},
		{"node.session.auth.chap_algs", ""},
	};
	char *after = NULL;

	(void)state;
	assert_int_equal(iscsi_record_edit(before, settings,
					   array_size(settings), &after, NULL),
			 0);
	assert_string_equal(
		after,
		"# BEGIN RECORD 2.1.8\n"
		"node.name = iqn.2025-01.io.union:v-0:7:0123456789abcdef\n"
		"node.tpgt = 1\n"
		"node.conn[0].address = 10.0.0.1\n"
		"node.conn[0].port = 3260\n"
		"node.startup = manual\n"
		"node.session.auth.authmethod = CHAP\n"
		"node.session.auth.username = alice\n"
		"node.session.auth.password = 0x no #number =  21\n"
		"# END RECORD\n");
	free(after);
}

static void writing_it_again_changes_nothing(void **state)
{
	const struct iscsi_setting settings[] = {
		{"node.startup", "manual"},
		{"node.session.auth.password", "a secret of twenty"},
	};
	char *once = NULL, *twice = NULL;

	(void)state;
	assert_int_equal(iscsi_record_edit(before, settings, 2, &once, NULL),
			 0);
	assert_int_equal(iscsi_record_edit(once, settings, 2, &twice, NULL), 0);
	assert_string_equal(once, twice);
	free(once);
	free(twice);
}

static void a_key_that_another_begins_with_is_another(void **state)
{
	const struct iscsi_setting settings[] = {
		{"node.session.auth.password", "new"},
		{"node.conn[0].port", "1"},
	};
	static const char text[] = "node.session.auth.password_in = old\n"
				   "node.session.auth.password\t= x\n"
				   "# END RECORD\n";
	char *after = NULL;

	(void)state;
	assert_int_equal(iscsi_record_edit(text, settings, 2, &after, NULL), 0);
	assert_string_equal(after, "node.session.auth.password_in = old\n"
				   "node.session.auth.password = new\n"
				   "node.conn[0].port = 1\n"
				   "# END RECORD\n");
	free(after);
}

static void refuses_a_value_that_would_not_be_read_back(void **state)
{
	static const char *const bad[] = {" secret", "secret\t", "se\ncret"};
	char *after = NULL;
	char longest[257];

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	for (size_t i = 0; i <= array_size(bad); i++) {
		const struct iscsi_setting s = {"node.session.auth.password",
						i < array_size(bad) ? bad[i]
								    : longest};
		struct error err = {0};

		assert_int_equal(iscsi_record_edit(before, &s, 1, &after, &err),
				 -EINVAL);
		assert_non_null(strstr(error_text(&err), "auth.password"));
		assert_null(strstr(error_text(&err), "cret"));
		assert_null(after);
	}
}

static void refuses_what_is_no_record(void **state)
{
	static const char *const bad[] = {
		"",
		"node.name = x\n",
		"# BEGIN RECORD 2.1.8\n",
		"# END",
	};
	const struct iscsi_setting s = {"node.startup", "manual"};
	char *after = NULL;

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++)
		assert_int_equal(iscsi_record_edit(bad[i], &s, 1, &after, NULL),
				 -EINVAL);
	assert_null(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replaces_what_is_there_and_adds_what_is_not),
		cmocka_unit_test(writing_it_again_changes_nothing),
		cmocka_unit_test(a_key_that_another_begins_with_is_another),
		cmocka_unit_test(refuses_a_value_that_would_not_be_read_back),
		cmocka_unit_test(refuses_what_is_no_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
