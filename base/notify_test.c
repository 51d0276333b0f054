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
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/notify.h"

/* A socket as systemd makes it. */
static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(path);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	memcpy(address.sun_path, path, length);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	assert_int_equal(
		bind(fd, (struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				 length)),
		0);
	return fd;
}

static void sends_and_receives(const char *path)
{
	auto_close int fd = listen_at(path);
	char got[64] = {0};

	assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
	assert_int_equal(notify_send("READY=1"), 0);
	assert_int_equal(recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT), 7);
	assert_string_equal(got, "READY=1");
}

static void sends_to_a_path(void **state)
{
	char dir[] = "/tmp/notify-test.XXXXXX", path[64];

	(void)state;
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/socket", dir);
	sends_and_receives(path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(notify_send("READY=1"), -ENOENT);
	assert_int_equal(rmdir(dir), 0);
}

static void sends_to_an_abstract_name(void **state)
{
	char name[64];

	(void)state;
	(void)snprintf(name, sizeof(name), "@notify-test-%d", getpid());
	sends_and_receives(name);
}

static void without_the_variable_nothing_is_sent(void **state)
{
	(void)state;
	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	assert_int_equal(notify_send("READY=1"), 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", "", 1), 0);
	assert_int_equal(notify_send("READY=1"), 0);
}

static void an_address_of_another_kind_is_refused(void **state)
{
	char path[200];

	(void)state;
	assert_int_equal(setenv("NOTIFY_SOCKET", "vsock:2:1", 1), 0);
	assert_int_equal(notify_send("READY=1"), -EINVAL);
	memset(path, '/', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
	assert_int_equal(notify_send("READY=1"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_to_a_path),
		cmocka_unit_test(sends_to_an_abstract_name),
		cmocka_unit_test(without_the_variable_nothing_is_sent),
		cmocka_unit_test(an_address_of_another_kind_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
