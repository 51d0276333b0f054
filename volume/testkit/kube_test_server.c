/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/testkit/kube_test_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"

#define SCRIPT    "tests/kube/fake_apiserver"
#define START_MS  120000 /* of Python on a busy machine */
#define SMALL_LOG (4u << 20)

static void path_of(const struct test_server *server, const char *name,
		    char *ret)
{
	(void)snprintf(ret, PATH_MAX, "%s/%s", server->directory, name);
}

/* The authority, and a server and a client certificate of it. */
static const char make_certificates[] =
	"cd \"$0\" && exec 2>/dev/null &&"
	" new='openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'"
	" && $new -x509 -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem &&"
	" echo subjectAltName=IP:127.0.0.1 >names &&"
	" for who in server client; do"
	" $new -subj /CN=$who -keyout $who.key -out $who.csr &&"
	" openssl x509 -req -in $who.csr -CA ca.pem -CAkey ca.key"
	" -CAcreateserial -days 2 -extfile names -out $who.pem || exit 1;"
	" done;"
	" $new -x509 -days 2 -subj /CN=other -keyout other.key -out other.pem";

bool test_server_prepare(struct test_server *server)
{
	const char *certificates[] = {"sh", "-c", make_certificates,
				      server->directory, NULL};
	const char *python[] = {"python3", "-c", "import yaml, ssl", NULL};

	*server = (struct test_server){.directory = "/tmp/kube-test.XXXXXX"};
	if (!mkdtemp(server->directory))
		return false;
	test_server_write(server, "tokens",
			  TEST_TOKEN "\nweak-token\nfresh-token\n");
	return access(SCRIPT, X_OK) == 0 &&
	       process_must(python, 20000, NULL) == 0 &&
	       process_must(certificates, 60000, NULL) == 0;
}

void test_server_write(struct test_server *server, const char *name,
		       const char *text)
{
	char path[PATH_MAX];

	path_of(server, name, path);
	assert_int_equal(
		file_replace(AT_FDCWD, path, text, strlen(text), 0600, NULL),
		0);
}

static void write_kubeconfig(struct test_server *server)
{
	char text[1024];

	(void)snprintf(
		text, sizeof(text),
		"apiVersion: v1\n"
		"kind: Config\n"
		"current-context: token\n"
		"clusters:\n"
		"- name: here\n"
		"  cluster:\n"
		"    server: https://127.0.0.1:%d\n"
		"    certificate-authority: ca.pem\n"
		"users:\n"
		"- {name: token, user: {token: " TEST_TOKEN "}}\n"
		"- {name: weak, user: {token: weak-token}}\n"
		"- {name: file, user: {tokenFile: token}}\n"
		"- name: certificate\n"
		"  user: {client-certificate: client.pem,"
		" client-key: client.key}\n"
		"contexts:\n"
		"- {name: token, context: {cluster: here, user: token}}\n"
		"- {name: weak, context: {cluster: here, user: weak}}\n"
		"- {name: file, context: {cluster: here, user: file}}\n"
		"- name: certificate\n"
		"  context: {cluster: here, user: certificate}\n",
		server->port);
	test_server_write(server, "config", text);
	(void)snprintf(server->location, sizeof(server->location),
		       "kube:tributary,kubeconfig=%s/config",
		       server->directory);
}

void test_server_start(struct test_server *server)
{
	const char *argv[] = {"python3", SCRIPT, server->directory,
			      "deploy/crd", NULL};
	auto_free char *text = NULL;
	struct error err = {0};
	char path[PATH_MAX];
	size_t length;
	int waited_ms = 0;

	path_of(server, "port", path);
	(void)unlink(path);
	if (process_start(argv, STDERR_FILENO, -1, &server->pid, &err) < 0)
		fail_msg("%s", err.msg);
	while (file_read(AT_FDCWD, path, 16, &text, &length, NULL) < 0) {
		assert_int_equal(waitpid(server->pid, NULL, WNOHANG), 0);
		assert_true((waited_ms += 20) < START_MS);
		(void)poll(NULL, 0, 20);
	}
	server->port = atoi(text);
	write_kubeconfig(server);
}

void test_server_stop(struct test_server *server)
{
	if (server->pid > 0) {
		(void)kill(server->pid, SIGKILL);
		(void)waitpid(server->pid, NULL, 0);
	}
	server->pid = 0;
}

void test_server_remove(struct test_server *server)
{
	const char *argv[] = {"rm", "-rf", "--one-file-system",
			      server->directory, NULL};

	test_server_stop(server);
	(void)process_must(argv, 20000, NULL);
}

void test_server_faults(struct test_server *server, const char *faults)
{
	test_server_write(server, "faults", faults);
}

unsigned test_server_count(struct test_server *server, const char *method,
			   const char *part)
{
	auto_free char *text = NULL;
	char path[PATH_MAX], *rest, *line;
	unsigned count = 0;
	size_t length;

	path_of(server, "log", path);
	if (file_read(AT_FDCWD, path, SMALL_LOG, &text, &length, NULL) < 0)
		return 0;
	(void)unlink(path);
	for (rest = text; (line = strsep(&rest, "\n"));)
		count += strncmp(line, method, strlen(method)) == 0 &&
			 strstr(line, part);
	return count;
}
