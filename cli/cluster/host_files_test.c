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
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "cli/cluster/host_files.h"

struct place {
	char dir[64], etc[96], pool[128];
	char *pools[1], *labels[2];
	struct option_list pool_list, label_list;
	struct host_settings host;
	struct error err;
};

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	(void)strcpy(p->dir, "/tmp/host-files-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	(void)snprintf(p->etc, sizeof(p->etc), "%s/etc", p->dir);
	(void)snprintf(p->pool, sizeof(p->pool), "fast=%s/srv/fast", p->dir);
	p->pools[0] = p->pool;
	p->labels[0] = (char *)"zone=a";
	p->labels[1] = (char *)"rack=7";
	p->pool_list = (struct option_list){.items = p->pools, .count = 1};
	p->label_list = (struct option_list){.items = p->labels, .count = 2};
	p->host = (struct host_settings){
		.etc = p->etc,
		.node = "a",
		.host = "10.0.0.1",
		.store = "etcd:/x,endpoint=http://10.0.0.9:2379",
		.pools = &p->pool_list,
		.labels = &p->label_list,
	};
	*state = p;
	return 0;
}

static int teardown(void **state)
{
	struct place *p = *state;
	const char *const rm[] = {"rm", "-rf", p->dir, NULL};

	assert_int_equal(process_must(rm, 10000, NULL), 0);
	free(p);
	return 0;
}

/* A file of the host; returned owned. */
static char *text(const struct place *p, const char *name)
{
	char path[160], *ret;
	size_t length;

	(void)snprintf(path, sizeof(path), "%s/%s", p->etc, name);
	assert_int_equal(file_read(AT_FDCWD, path, 65536, &ret, &length, NULL),
			 0);
	return ret;
}

/* Was it a host already? */
static bool write_files(struct place *p)
{
	bool was;

	if (host_settings_check(&p->host, &p->err) < 0 ||
	    host_files_write(&p->host, false, &was, &p->err) < 0)
		fail_msg("%s", p->err.msg);
	return was;
}

static void the_files_say_what_was_given(void **state)
{
	struct place *p = *state;
	char *blockd, *trib, *env, pool[128];
	struct stat st;

	write_files(p);
	blockd = text(p, "blockd.conf");
	trib = text(p, "trib.conf");
	env = text(p, "node.env");
	assert_string_equal(trib, "store = etcd:/x,endpoint=http://"
				  "10.0.0.9:2379\nnode = a\n");
	assert_non_null(strstr(blockd, "\ncontrol = tcp:10.0.0.1:10810\n"));
	assert_non_null(strstr(blockd, "\nlisten = tcp:10.0.0.1:10809\n"));
	assert_non_null(strstr(blockd, "\npool = fast=/tmp/host-files-"));
	assert_non_null(strstr(blockd, "/etc/tls/tls.key\n"));
	assert_non_null(strstr(env, " --data 10.0.0.1:10809 "));
	assert_non_null(strstr(env, " --labels zone=a --labels rack=7\n"));
	(void)snprintf(pool, sizeof(pool), "%s/srv/fast", p->dir);
	assert_int_equal(stat(pool, &st), 0);
	free(blockd);
	free(trib);
	free(env);
}

static void an_address_of_version_6_has_brackets(void **state)
{
	struct place *p = *state;
	char *blockd;

	p->host.host = "fd00::1";
	write_files(p);
	blockd = text(p, "blockd.conf");
	assert_non_null(strstr(blockd, "\nlisten = tcp:[fd00::1]:10809\n"));
	free(blockd);
}

static void a_host_of_the_cluster_keeps_its_settings(void **state)
{
	struct place *p = *state;
	char *blockd;

	assert_false(write_files(p));
	/* Renewed by an invitation, which says nothing of pools. */
	p->pool_list.count = 0;
	assert_true(write_files(p));
	blockd = text(p, "blockd.conf");
	assert_non_null(strstr(blockd, "\npool = fast="));
	free(blockd);
}

static void another_configuration_is_not_overwritten(void **state)
{
	struct place *p = *state;
	char *trib;
	bool was;

	write_files(p);
	p->host.store = "etcd:/y,endpoint=http://10.0.0.9:2379";
	assert_int_equal(host_files_write(&p->host, false, &was, &p->err),
			 -EEXIST);
	assert_non_null(strstr(p->err.msg, "trib.conf"));
	assert_int_equal(host_files_write(&p->host, true, &was, NULL), 0);
	trib = text(p, "trib.conf");
	assert_non_null(strstr(trib, "etcd:/y"));
	free(trib);
}

/* What a crash after the first file leaves is finished by a repeat. */
static void it_can_be_repeated(void **state)
{
	struct place *p = *state;
	char path[160];

	write_files(p);
	(void)snprintf(path, sizeof(path), "%s/trib.conf", p->etc);
	assert_int_equal(unlink(path), 0);
	(void)snprintf(path, sizeof(path), "%s/node.env", p->etc);
	assert_int_equal(unlink(path), 0);
	write_files(p);
	free(text(p, "trib.conf"));
	free(text(p, "node.env"));
}

static void what_cannot_be_is_refused(void **state)
{
	static const char *const hosts[] = {"", "10.0.0.1:99", "a b", "x/y",
					    "a\nb"};
	struct place *p = *state;
	const struct host_settings fine = p->host;

	for (size_t i = 0; i < array_size(hosts); i++) {
		p->host.host = hosts[i];
		assert_int_equal(host_settings_check(&p->host, NULL), -EINVAL);
	}
	p->host = fine;
	p->host.node = "A B";
	assert_int_equal(host_settings_check(&p->host, NULL), -EINVAL);
	p->host = fine;
	p->host.store = "etcd:/x\nnode = b";
	assert_int_equal(host_settings_check(&p->host, NULL), -EINVAL);
	p->host = fine;
	p->labels[0] = (char *)"a=b\nc";
	assert_int_equal(host_settings_check(&p->host, NULL), -EINVAL);
	p->labels[0] = (char *)"zone=a b";
	assert_int_equal(host_settings_check(&p->host, NULL), -EINVAL);
	p->labels[0] = (char *)"zone=a";
	p->pools[0] = (char *)"fast=srv";
	assert_int_equal(host_settings_check(&p->host, NULL), -EINVAL);
	p->pools[0] = (char *)"fast=/dev/null";
	assert_int_equal(host_settings_check(&p->host, &p->err), -ENOTDIR);
	assert_non_null(strstr(p->err.msg, "trib pool create"));
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	static const struct CMUnitTest tests[] = {
		T(the_files_say_what_was_given),
		T(an_address_of_version_6_has_brackets),
		T(a_host_of_the_cluster_keeps_its_settings),
		T(another_configuration_is_not_overwritten),
		T(it_can_be_repeated),
		T(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
