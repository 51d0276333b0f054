/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine that watches the driver is shown, over a socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "csi/call/csi_pages.h"
#include "csi/testkit/csi_test_kit.h"

#define PAGE_MAX 65536 /* bytes */

struct test {
	struct kit kit;
	struct http *http;
	char address[160], path[128];
};

static int setup(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	kit_start(&t->kit, CSI_MODE_CONTROLLER);
	(void)snprintf(t->path, sizeof(t->path), "%s/http.sock", t->kit.dir);
	(void)snprintf(t->address, sizeof(t->address), "unix:%s", t->path);
	assert_int_equal(
		csi_pages_start(&t->kit.csi, t->address, &t->http, &t->kit.err),
		0);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct test *t = *state;

	http_stop(t->http);
	kit_stop(&t->kit);
	free(t);
	return 0;
}

static int connected(const struct test *t)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%.100s", t->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	return fd;
}

/* Send that, read to the end; owned. */
static char *exchange(const struct test *t, const char *request)
{
	int fd = connected(t);
	char *text = calloc(1, PAGE_MAX);
	size_t used = 0;
	ssize_t n = send(fd, request, strlen(request), MSG_NOSIGNAL);

	/* A server that has all the connections it may have closes one more. */
	if (n < 0)
		assert_int_equal(errno, EPIPE);
	else
		assert_int_equal(n, strlen(request));
	while ((n = read(fd, text + used, PAGE_MAX - 1 - used)) > 0)
		used += (size_t)n;
	(void)close(fd);
	return text;
}

static char *page(const struct test *t, const char *method, const char *path)
{
	char request[256];

	(void)snprintf(request, sizeof(request),
		       "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		       method, path);
	return exchange(t, request);
}

static void has(const char *text, const char *what)
{
	if (!strstr(text, what))
		fail_msg("no '%s' in:\n%s", what, text);
}

static void counts_calls_by_method_and_code(void **state)
{
	Csi__V1__GetPluginInfoRequest info =
		CSI__V1__GET_PLUGIN_INFO_REQUEST__INIT;
	Csi__V1__DeleteVolumeRequest bad = CSI__V1__DELETE_VOLUME_REQUEST__INIT;
	struct test *t = *state;
	auto_free char *text = NULL;

	for (int i = 0; i < 3; i++)
		(void)kit_call(&t->kit, "Identity/GetPluginInfo", &info, NULL);
	(void)kit_call(&t->kit, "Controller/DeleteVolume", &bad, NULL);
	text = page(t, "GET", "/metrics");
	has(text, "HTTP/1.1 200 OK");
	has(text, "Content-Type: text/plain; version=0.0.4");
	has(text, "\ntrib_csi_calls_total{method=\"GetPluginInfo\","
		  "code=\"OK\"} 3\n");
	has(text, "\ntrib_csi_calls_total{method=\"DeleteVolume\","
		  "code=\"INVALID_ARGUMENT\"} 1\n");
	has(text, "\ntrib_csi_call_seconds_bucket{method=\"GetPluginInfo\","
		  "le=\"+Inf\"} 3\n");
	has(text,
	    "\ntrib_csi_call_seconds_count{method=\"GetPluginInfo\"} 3\n");
	has(text, "\ntrib_csi_calls_in_flight{method=\"GetPluginInfo\"} 0\n");
	has(text, "\ntrib_csi_build_info{version=\"" TRIBUTARY_VERSION
		  "\",mode=\"controller\"} 1\n");
	/* Nobody elects here, so nobody knows. */
	assert_null(strstr(text, "trib_csi_leader"));
	assert_null(strstr(text, "trib_csi_volumes"));
	atomic_store(&t->kit.csi.metrics.elects, true);
	atomic_store(&t->kit.csi.metrics.leads, true);
	atomic_store(&t->kit.csi.metrics.volumes, 7);
	free(text);
	text = page(t, "GET", "/metrics");
	has(text, "\ntrib_csi_leader 1\n");
	has(text, "\ntrib_csi_volumes 7\n");
}

static void puts_each_call_into_the_right_bucket(void **state)
{
	static const char *const names[] = {"GetPluginInfo", NULL};
	struct csi_metrics *metrics = calloc(1, sizeof(*metrics));
	auto_free char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	assert_non_null(metrics);
	metrics->names = names;
	csi_metrics_begin(metrics, 0);
	csi_metrics_end(metrics, 0, RPC_OK, 1000);
	csi_metrics_begin(metrics, 0);
	csi_metrics_end(metrics, 0, RPC_OK, 1001);
	csi_metrics_begin(metrics, 0);
	csi_metrics_end(metrics, 0, RPC_ABORTED, 3600000000);
	csi_metrics_begin(metrics, 0);
	csi_metrics_write(metrics, "all", out);
	(void)fclose(out);
	has(text, "le=\"0.001\"} 1\n");
	has(text, "le=\"0.005\"} 2\n");
	has(text, "le=\"60\"} 2\n");
	has(text, "le=\"+Inf\"} 3\n");
	has(text, "trib_csi_call_seconds_sum{method=\"GetPluginInfo\"} "
		  "3600.002001\n");
	has(text, "trib_csi_calls_in_flight{method=\"GetPluginInfo\"} 1\n");
	free(metrics);
}

static void tells_whether_it_is_healthy_and_ready(void **state)
{
	struct test *t = *state;
	auto_free char *health = page(t, "GET", "/healthz");
	auto_free char *ready = page(t, "HEAD", "/readyz");

	has(health, "HTTP/1.1 200 OK");
	has(health, "\r\n\r\nok\n");
	has(ready, "HTTP/1.1 200 OK");
	assert_null(strstr(ready, "ok\n"));
}

static void answers_strangers_and_goes_on(void **state)
{
	static const struct {
		const char *request, *answer;
	} odd[] = {
		{"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		 "404"},
		{"GET /metrics/../../etc/passwd HTTP/1.1\r\nHost: x\r\n"
		 "Connection: close\r\n\r\n",
		 "404"},
		{"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
		 "Connection: close\r\n\r\nabc",
		 "405"},
		{"DELETE /metrics HTTP/1.1\r\nHost: x\r\n"
		 "Connection: close\r\n\r\n",
		 "405"},
	};
	struct test *t = *state;
	auto_free char *large = malloc(1 << 20);
	auto_free char *after = NULL;
	int fds[HTTP_CONNECTIONS_MAX + 8];

	for (size_t i = 0; i < array_size(odd); i++) {
		auto_free char *text = exchange(t, odd[i].request);

		has(text, odd[i].answer);
	}
	/* A header without an end, more of them than there may be. */
	memset(large, 'a', 1 << 20);
	memcpy(large, "GET /metrics HTTP/1.1\r\nX: ", 26);
	for (size_t i = 0; i < array_size(fds); i++) {
		fds[i] = connected(t);
		(void)send(fds[i], large, 1 << 20, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	for (size_t i = 0; i < array_size(fds); i++)
		(void)close(fds[i]);
	/*
	 * The server takes a moment until it knows that the clients have gone.
	 */
	for (int i = 0; i < 1200 && (!after || !strstr(after, "200 OK")); i++) {
		if (after)
			(void)usleep(50000);
		free(after);
		after = page(t, "GET", "/healthz");
	}
	has(after, "200 OK");
}

static void replaces_a_dead_socket_but_no_live_one(void **state)
{
	struct test *t = *state;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct http *second = NULL;
	struct error err = {0};
	char address[192];
	struct stat st;
	int fd;

	assert_int_equal(stat(t->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(
		csi_pages_start(&t->kit.csi, t->address, &second, &err),
		-EADDRINUSE);
	has(err.msg, t->address);
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%.90s/dead",
		       t->kit.dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	(void)close(fd);
	(void)snprintf(address, sizeof(address), "unix:%s", un.sun_path);
	assert_int_equal(csi_pages_start(&t->kit.csi, address, &second, &err),
			 0);
	http_stop(second);
	assert_int_equal(access(un.sun_path, F_OK), -1);
}

static void takes_addresses_that_are_ones(void **state)
{
	static const char *const bad[] = {"",
					  "here",
					  "unix:relative",
					  ":9090",
					  "127.0.0.1:99999",
					  "tcp:127.0.0.1:9090"};
	struct test *t = *state;
	struct http *http = NULL;
	struct error err = {0};

	for (size_t i = 0; i < array_size(bad); i++) {
		assert_int_equal(
			csi_pages_start(&t->kit.csi, bad[i], &http, &err),
			-EINVAL);
		has(err.msg, "HOST:PORT");
	}
	assert_int_equal(
		csi_pages_start(&t->kit.csi, "127.0.0.1:0", &http, &err), 0);
	http_stop(http);
	assert_int_equal(csi_pages_start(&t->kit.csi, "[::]:0", &http, &err),
			 0);
	http_stop(http);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(counts_calls_by_method_and_code),
		cmocka_unit_test(puts_each_call_into_the_right_bucket),
		T(tells_whether_it_is_healthy_and_ready),
		T(answers_strangers_and_goes_on),
		T(replaces_a_dead_socket_but_no_live_one),
		T(takes_addresses_that_are_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
