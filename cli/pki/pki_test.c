/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"
#include "cli/pki/pki.h"

#define DAY_S 86400

struct place {
	char dir[64], authority[96], out[96];
	struct error err;
};

static int setup(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	(void)strcpy(place->dir, "/tmp/pki-test-XXXXXX");
	assert_non_null(mkdtemp(place->dir));
	(void)snprintf(place->authority, sizeof(place->authority), "%s/a/ca",
		       place->dir);
	(void)snprintf(place->out, sizeof(place->out), "%s/out", place->dir);
	*state = place;
	return 0;
}

static int teardown(void **state)
{
	struct place *place = *state;
	const char *const rm[] = {"rm", "-rf", place->dir, NULL};

	assert_int_equal(process_must(rm, 10000, NULL), 0);
	free(place);
	return 0;
}

static void authority(struct place *place, unsigned days)
{
	bool made;

	if (pki_authority_make(place->authority, "test", days, &made,
			       &place->err) < 0)
		fail_msg("%s", place->err.msg);
	assert_true(made);
}

static struct pki_cert node(void)
{
	return (struct pki_cert){
		.name = "node-a",
		.hosts = {"10.0.0.1", "fd00::1", "a.example"},
		.n_hosts = 3,
		.server = true,
		.client = true,
	};
}

static void issue(struct place *place, const struct pki_cert *wanted,
		  unsigned days)
{
	struct pki_files files;

	if (pki_issue(place->authority, wanted, days, &files, &place->err) <
		    0 ||
	    pki_files_write(place->out, &files, &place->err) < 0)
		fail_msg("%s", place->err.msg);
	pki_files_done(&files);
}

static const char *in(const char *dir, const char *name)
{
	static char path[160];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* Another library has to accept it, too. */
static bool openssl_verifies(const struct place *place, const char *purpose)
{
	char ca[160], cert[160];
	const char *const argv[] = {"openssl",  "verify", "-x509_strict",
				    "-purpose", purpose,  "-CAfile",
				    ca,         cert,     NULL};

	(void)strcpy(ca, in(place->out, PKI_AUTHORITY_CERT));
	(void)strcpy(cert, in(place->out, PKI_CERT));
	return process_must(argv, 30000, NULL) == 0;
}

static void what_is_asked_for_is_signed(void **state)
{
	struct place *place = *state;
	const struct pki_cert wanted = node();
	struct pki_cert cert;

	authority(place, 100);
	issue(place, &wanted, 90);
	assert_int_equal(pki_cert_read(in(place->out, PKI_CERT), &cert, NULL),
			 0);
	assert_string_equal(cert.name, "node-a");
	assert_int_equal(cert.n_hosts, 3);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(cert.hosts[i], wanted.hosts[i]);
	assert_true(cert.server && cert.client && !cert.authority);
	assert_int_equal(pki_cert_days(&cert), 90);
	assert_true(openssl_verifies(place, "sslserver"));
	assert_true(openssl_verifies(place, "sslclient"));
	assert_int_equal(mode_of(in(place->out, PKI_KEY)), 0600);
	assert_int_equal(mode_of(in(place->authority, PKI_AUTHORITY_KEY)),
			 0600);
	assert_int_equal(mode_of(place->authority), 0700);
}

static void a_client_is_no_server(void **state)
{
	struct place *place = *state;
	struct pki_cert wanted = node();

	wanted.server = false;
	authority(place, 100);
	issue(place, &wanted, 1);
	assert_true(openssl_verifies(place, "sslclient"));
	assert_false(openssl_verifies(place, "sslserver"));
}

static void another_authority_does_not_vouch(void **state)
{
	struct place *place = *state;
	const struct pki_cert wanted = node();
	const char *cp[] = {"cp", NULL, place->out, NULL};

	authority(place, 100);
	issue(place, &wanted, 1);
	(void)snprintf(place->authority, sizeof(place->authority), "%s/b",
		       place->dir);
	authority(place, 100);
	cp[1] = in(place->authority, PKI_AUTHORITY_CERT);
	assert_int_equal(process_must(cp, 10000, NULL), 0);
	assert_false(openssl_verifies(place, "sslserver"));
}

static void an_authority_that_is_there_stays(void **state)
{
	struct place *place = *state;
	const struct pki_cert wanted = node();
	bool made = true;

	authority(place, 100);
	issue(place, &wanted, 1);
	assert_int_equal(
		pki_authority_make(place->authority, "other", 1, &made, NULL),
		0);
	assert_false(made);
	assert_true(openssl_verifies(place, "sslserver"));
	/* What a crash between the two files leaves is made again. */
	assert_int_equal(unlink(in(place->authority, PKI_AUTHORITY_CERT)), 0);
	authority(place, 100);
	assert_int_equal(unlink(in(place->authority, PKI_AUTHORITY_KEY)), 0);
	assert_int_equal(
		pki_authority_make(place->authority, "test", 1, &made, NULL),
		-EEXIST);
}

static void a_certificate_ends_with_its_authority(void **state)
{
	struct place *place = *state;
	const struct pki_cert wanted = node();
	struct pki_cert cert, ca;

	authority(place, 10);
	issue(place, &wanted, 90);
	assert_int_equal(pki_cert_read(in(place->out, PKI_CERT), &cert, NULL),
			 0);
	assert_int_equal(pki_cert_read(in(place->authority, PKI_AUTHORITY_CERT),
				       &ca, NULL),
			 0);
	assert_true(ca.authority);
	assert_int_equal(cert.end_s, ca.end_s);
}

static void what_cannot_be_is_refused(void **state)
{
	struct place *place = *state;
	struct pki_cert wanted = node();
	struct pki_files files;

	assert_int_equal(
		pki_issue(place->authority, &wanted, 1, &files, &place->err),
		-ENOENT);
	assert_non_null(strstr(place->err.msg, "trib pki init"));
	authority(place, 0); /* it has expired */
	assert_int_equal(
		pki_issue(place->authority, &wanted, 1, &files, &place->err),
		-EINVAL);
	assert_non_null(strstr(place->err.msg, "has expired"));
	(void)strcpy(wanted.hosts[1], "a b");
	assert_int_equal(pki_issue(place->authority, &wanted, 1, &files, NULL),
			 -EINVAL);
	wanted = node();
	wanted.name[0] = '\0';
	assert_int_equal(pki_issue(place->authority, &wanted, 1, &files, NULL),
			 -EINVAL);
	wanted = node();
	wanted.server = wanted.client = false;
	assert_int_equal(pki_issue(place->authority, &wanted, 1, &files, NULL),
			 -EINVAL);
}

static void it_is_due_in_its_last_third(void **state)
{
	const struct pki_cert cert = {.from_s = 0, .end_s = 90 * DAY_S};

	(void)state;
	assert_false(pki_cert_is_due(&cert, 60 * DAY_S));
	assert_true(pki_cert_is_due(&cert, 60 * DAY_S + 1));
	assert_true(pki_cert_is_due(&cert, 91 * DAY_S));
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	static const struct CMUnitTest tests[] = {
		T(what_is_asked_for_is_signed),
		T(a_client_is_no_server),
		T(another_authority_does_not_vouch),
		T(an_authority_that_is_there_stays),
		T(a_certificate_ends_with_its_authority),
		T(what_cannot_be_is_refused),
		T(it_is_due_in_its_last_third),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
