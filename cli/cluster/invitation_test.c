/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "cli/cluster/invitation.h"

struct place {
	char etc[64], store[256];
	struct invitation invitation;
	struct error err;
};

static void put(const struct place *p, const char *name, const char *text)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", p->etc, name);
	assert_int_equal(
		file_replace(AT_FDCWD, path, text, strlen(text), 0600, NULL),
		0);
}

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	(void)strcpy(p->etc, "/tmp/invitation-XXXXXX");
	assert_non_null(mkdtemp(p->etc));
	put(p, "etcd-ca.pem", "the authority\n");
	put(p, "word", "secret\n");
	(void)snprintf(p->store, sizeof(p->store),
		       "etcd:/t,endpoint=https://a:2379,ca=%s/etcd-ca.pem,"
		       "user=u,password-file=%s/word",
		       p->etc, p->etc);
	(void)strcpy(p->invitation.node, "b");
	(void)strcpy(p->invitation.host, "10.0.0.2");
	p->invitation.store = strdup(p->store);
	p->invitation.files = (struct pki_files){strdup("A"), strdup("C"),
						 strdup("K")};
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;
	const char *const rm[] = {"rm", "-rf", p->etc, NULL};

	assert_int_equal(process_must(rm, 10000, NULL), 0);
	invitation_done(&p->invitation);
	free(p);
	return 0;
}

/* The document; returned owned. */
static char *document(const struct place *p)
{
	struct json_object *all = invitation_encode(&p->invitation);
	char *text = strdup(json_object_to_json_string(all));

	json_object_put(all);
	return text;
}

static void it_carries_what_the_store_names(void **state)
{
	struct place *p = *state;
	struct invitation read;
	char *text, path[128], *word;
	size_t length;

	assert_int_equal(invitation_read_files(&p->invitation, p->etc, &p->err),
			 0);
	text = document(p);
	if (invitation_decode(text, strlen(text), p->etc, &read, &p->err) < 0)
		fail_msg("%s", p->err.msg);
	free(text);
	assert_string_equal(read.node, "b");
	assert_string_equal(read.host, "10.0.0.2");
	assert_string_equal(read.store, p->store);
	assert_string_equal(read.files.authority, "A");
	assert_string_equal(read.files.cert, "C");
	assert_string_equal(read.files.key, "K");
	assert_int_equal(read.n_store_files, 2);
	(void)snprintf(path, sizeof(path), "%s/word", p->etc);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(invitation_write_files(&read, NULL), 0);
	assert_int_equal(file_read(AT_FDCWD, path, 64, &word, &length, NULL),
			 0);
	assert_string_equal(word, "secret\n");
	free(word);
	invitation_done(&read);
}

static void a_file_elsewhere_is_not_taken_along(void **state)
{
	struct place *p = *state;

	assert_int_equal(invitation_read_files(&p->invitation, "/etc/tributary",
					       &p->err),
			 -EINVAL);
	assert_non_null(strstr(p->err.msg, "put it there"));
}

static void it_writes_nowhere_else(void **state)
{
	/* After the directory; the last two have none before them. */
	static const char *const ends[] = {"/../x", "/a/../../x",  "/..", "/",
					   "x/y",   "/etc/passwd", "x"};
	struct place *p = *state;
	struct invitation read;

	p->invitation.n_store_files = 1;
	p->invitation.store_files[0].text = strdup("x");
	for (size_t i = 0; i < array_size(ends); i++) {
		bool below = i < array_size(ends) - 2;
		char *text;

		free(p->invitation.store_files[0].path);
		assert_true(asprintf(&p->invitation.store_files[0].path, "%s%s",
				     below ? p->etc : "", ends[i]) > 0);
		text = document(p);
		assert_int_equal(invitation_decode(text, strlen(text), p->etc,
						   &read, NULL),
				 -EINVAL);
		free(text);
	}
}

static void what_is_no_invitation_is_refused(void **state)
{
	static const struct {
		const char *text;
		int r;
	} cases[] = {
		{"{}", -EINVAL},
		{"Connection refused", -EINVAL},
		{"{\"apiVersion\":\"union.io/v1alpha1\","
		 "\"kind\":\"ClusterInvitation\",\"node\":\"b\"}",
		 -EINVAL},
		{"{\"apiVersion\":\"union.io/v9\","
		 "\"kind\":\"ClusterInvitation\"}",
		 -EPROTONOSUPPORT},
	};
	struct place *p = *state;
	struct invitation read;

	for (size_t i = 0; i < array_size(cases); i++)
		assert_int_equal(invitation_decode(cases[i].text,
						   strlen(cases[i].text),
						   p->etc, &read, NULL),
				 cases[i].r);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	static const struct CMUnitTest tests[] = {
		T(it_carries_what_the_store_names),
		T(a_file_elsewhere_is_not_taken_along),
		T(it_writes_nowhere_else),
		T(what_is_no_invitation_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
