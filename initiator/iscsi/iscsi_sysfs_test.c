/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests against a tree as Linux 6.12 shows it with two sessions, one of them
 * with two LUNs; a session folder is a link to the device, as there.
 */
#include "initiator/iscsi/iscsi_sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/file.h"

static char root[] = "/tmp/iscsi_sysfs_test.XXXXXX";

static void put(const char *name, const void *data, size_t length)
{
	char path[512], *slash;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	slash = strrchr(path, '/');
	*slash = '\0';
	assert_int_equal(dir_make(path, 0700, NULL), 0);
	*slash = '/';
	f = fopen(path, "we");
	assert_non_null(f);
	assert_int_equal(fwrite(data, 1, length, f), length);
	assert_int_equal(fclose(f), 0);
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void put_link(const char *name, const char *to)
{
	char path[512];

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	assert_int_equal(symlink(to, path), 0);
}

#define HOST    "devices/platform/host"
#define SERIAL  "6fa1b2c3-0001-4000-8000-00000000000a"
#define SESSION HOST "2/session1/iscsi_session/session1/"
#define DISK    HOST "2/session1/target2:0:0/2:0:0:"

static int tree_make(void **state)
{
	/* Page 80h of the disk: 36 bytes of serial number. */
	static const char page[] = "\0\x80\0\x24" SERIAL;

	(void)state;
	assert_non_null(mkdtemp(root));
	put_text("class/iscsi_transport/tcp/handle", "1\n");
	put_text(SESSION "ifacename", "trib-00000000000000aa\n");
	put_text(SESSION "targetname", "iqn.2025-01.io.union:v-0:7:ab\n");
	put_text(SESSION "state", "LOGGED_IN\n");
	put_link(SESSION "device", "../../../session1");
	put_text(DISK "0/state", "running\n");
	put(DISK "0/vpd_pg80", page, sizeof(page) - 1);
	put_text(DISK "0/block/sdb/size", "131072\n");
	put_text(DISK "3/state", "transport-offline\n");
	put(DISK "3/vpd_pg80", "\0\x80\0\x06 ab c ", 10);
	put_text(DISK "3/block/sdc/size", "131072\n");
	put_text(DISK "5/state", "running\n"); /* no disk yet */
	put_text(HOST "2/session1/connection1:0/uevent", "");
	put_text(HOST "3/session2/iscsi_session/session2/ifacename",
		 "default\n");
	put_text(HOST "3/session2/iscsi_session/session2/targetname",
		 "iqn.2001-04.com.example:other\n");
	put_text(HOST "3/session2/iscsi_session/session2/state", "FAILED\n");
	put_link(HOST "3/session2/iscsi_session/session2/device",
		 "../../../session2");
	put_text("class/iscsi_session/.keep", "");
	put_link("class/iscsi_session/session1", "../../" SESSION);
	put_link("class/iscsi_session/session2",
		 "../../" HOST "3/session2/iscsi_session/session2");
	return 0;
}

static int tree_remove(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command); /* NOLINT(cert-env33-c): a fixed path */
}

static void finds_the_session_of_an_interface(void **state)
{
	struct iscsi_session session;

	(void)state;
	assert_true(iscsi_sysfs_usable(root));
	assert_int_equal(
		iscsi_session_find(root, "trib-00000000000000aa", &session), 0);
	assert_int_equal(session.id, 1);
	assert_string_equal(session.target, "iqn.2025-01.io.union:v-0:7:ab");
	assert_string_equal(session.state, "LOGGED_IN");
	assert_int_equal(
		iscsi_session_find(root, "trib-00000000000000ab", &session),
		-ENOENT);
	assert_int_equal(
		iscsi_session_find(root, "trib-00000000000000", &session),
		-ENOENT);
}

static void finds_the_disk_at_a_lun(void **state)
{
	struct iscsi_disk disk;

	(void)state;
	assert_int_equal(iscsi_disk_find(root, 1, 0, &disk), 0);
	assert_string_equal(disk.name, "sdb");
	assert_string_equal(disk.state, "running");
	assert_string_equal(disk.serial, SERIAL);
	assert_int_equal(iscsi_disk_find(root, 1, 3, &disk), 0);
	assert_string_equal(disk.name, "sdc");
	assert_string_equal(disk.state, "transport-offline");
	assert_string_equal(disk.serial, "ab c");
}

static void waits_for_a_disk_that_is_not_there_yet(void **state)
{
	struct iscsi_disk disk;

	(void)state;
	assert_int_equal(iscsi_disk_find(root, 1, 5, &disk), -ENOENT);
	assert_int_equal(iscsi_disk_find(root, 1, 1, &disk), -ENOENT);
	assert_int_equal(iscsi_disk_find(root, 2, 0, &disk), -ENOENT);
	assert_int_equal(iscsi_disk_find(root, 9, 0, &disk), -ENOENT);
}

static void a_serial_number_with_a_wrong_length_is_cut(void **state)
{
	struct iscsi_disk disk;

	(void)state;
	put(DISK "3/vpd_pg80",
	    "\0\x80\xff\xff"
	    "abc",
	    7);
	assert_int_equal(iscsi_disk_find(root, 1, 3, &disk), 0);
	assert_string_equal(disk.serial, "abc");
	put(DISK "3/vpd_pg80",
	    "\0\x83\0\x03"
	    "abc",
	    7);
	assert_int_equal(iscsi_disk_find(root, 1, 3, &disk), 0);
	assert_string_equal(disk.serial, "");
	put(DISK "3/vpd_pg80", "\0\x80", 2);
	assert_int_equal(iscsi_disk_find(root, 1, 3, &disk), 0);
	assert_string_equal(disk.serial, "");
}

static void a_machine_without_iscsi_has_none(void **state)
{
	struct iscsi_session session;
	char empty[64];

	(void)state;
	(void)snprintf(empty, sizeof(empty), "%s/devices", root);
	assert_false(iscsi_sysfs_usable(empty));
	assert_int_equal(iscsi_session_find(empty, "default", &session),
			 -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_session_of_an_interface),
		cmocka_unit_test(finds_the_disk_at_a_lun),
		cmocka_unit_test(waits_for_a_disk_that_is_not_there_yet),
		cmocka_unit_test(a_serial_number_with_a_wrong_length_is_cut),
		cmocka_unit_test(a_machine_without_iscsi_has_none),
	};

	return cmocka_run_group_tests(tests, tree_make, tree_remove);
}
