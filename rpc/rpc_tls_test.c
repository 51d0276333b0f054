/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "rpc/rpc_cert.h"
#include "rpc/rpc_test_kit.h"

#define NOBODY 65534 /* a user and group without anything */

/* One authority and what it signed, in a directory of all tests. */
struct pki {
	char ca[128], cert[128], key[128];
	struct rpc_tls tls;
};

static char pki_dir[] = "/tmp/rpc-pki-XXXXXX";
static struct pki server_pki, client_pki, stranger_pki, named_pki, old_pki;

static const char *in_dir(char *buf, const char *name, const char *suffix)
{
	(void)snprintf(buf, 128, "%s/%s%s", pki_dir, name, suffix);
	return buf;
}

static void openssl(const char *script, ...)
{
	char line[1024];
	const char *const argv[] = {"sh", "-ec", line, NULL};
	struct error err = {0};
	va_list ap;

	va_start(ap, script);
	(void)vsnprintf(line, sizeof(line), script, ap);
	va_end(ap);
	if (process_must(argv, 30000, &err) < 0)
		fail_msg("%s: %s", line, err.msg);
}

static void make_ca(const char *name)
{
	openssl("cd %s; openssl req -x509 -newkey ec -pkeyopt "
		"ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=%s "
		"-keyout %s.key -out %s.pem",
		pki_dir, name, name, name);
}

/* Make a certificate. @days may be less than 0: it was valid until then. */
static void make_cert_for(struct pki *pki, const char *ca, const char *name,
			  const char *san, int days)
{
	openssl("cd %s; openssl req -newkey ec -pkeyopt "
		"ec_paramgen_curve:P-256 -nodes -subj /CN=%s "
		"-addext subjectAltName=%s -keyout %s.key -out %s.csr; "
		"openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key "
		"-CAcreateserial -days %d -copy_extensions copy -out %s.pem; "
		"chmod 600 %s.key",
		pki_dir, name, san, name, name, name, ca, ca, days, name, name);
	pki->tls = (struct rpc_tls){
		.ca_file = in_dir(pki->ca, ca, ".pem"),
		.cert_file = in_dir(pki->cert, name, ".pem"),
		.key_file = in_dir(pki->key, name, ".key"),
	};
}

static void make_cert(struct pki *pki, const char *ca, const char *name,
		      const char *san)
{
	make_cert_for(pki, ca, name, san, 1);
}

static int make_pki(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(pki_dir));
	make_ca("ours");
	make_ca("others");
	make_cert(&server_pki, "ours", "node-a", "IP:127.0.0.1");
	make_cert(&client_pki, "ours", "client-1", "DNS:client-1");
	make_cert(&named_pki, "ours", "node-b", "DNS:node-b.example");
	make_cert(&stranger_pki, "others", "stranger", "IP:127.0.0.1");
	make_cert_for(&old_pki, "ours", "old", "IP:127.0.0.1", -1);
	return 0;
}

static int drop_pki(void **state)
{
	const char *const rm[] = {"rm", "-rf", pki_dir, NULL};

	(void)state;
	return process_must(rm, 10000, NULL);
}

static int setup(void **state)
{
	struct kit *kit;

	(void)kit_setup(state);
	kit = *state;
	kit->addresses[0] = "tcp:127.0.0.1:0";
	return 0;
}

/* Start a server at a free port, whose address kit->address then is. */
static void serve(struct kit *kit, const struct rpc_tls *tls)
{
	int port;

	kit->options.tls = tls;
	if (rpc_server_start(&kit->options, &kit->server, &kit->err) < 0)
		fail_msg("start: %s", kit->err.msg);
	port = rpc_server_port(kit->server, 0);
	assert_in_range(port, 1, 65535);
	(void)snprintf(kit->address, sizeof(kit->address), "tcp:127.0.0.1:%d",
		       port);
}

static void dial(struct kit *kit, const struct rpc_tls *tls, const char *name)
{
	if (rpc_client_new(kit->address, tls, name, &kit->client, &kit->err) <
	    0)
		fail_msg("client: %s", kit->err.msg);
}

static void serves_a_client_with_a_certificate(void **state)
{
	struct kit *kit = *state;

	serve(kit, &server_pki.tls);
	dial(kit, &client_pki.tls, NULL);
	if (kit_get(kit, "echo:x", 30000, NULL) < 0)
		fail_msg("%s", kit->err.msg);
}

static void goes_by_the_name_it_was_told(void **state)
{
	struct kit *kit = *state;

	serve(kit, &named_pki.tls);
	dial(kit, &client_pki.tls, "node-b.example");
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

static void refuses_a_server_of_another_name(void **state)
{
	struct kit *kit = *state;

	serve(kit, &named_pki.tls);
	dial(kit, &client_pki.tls, NULL); /* 127.0.0.1 */
	assert_true(kit_unreachable(kit, "not in peer certificate"));
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
}

static void refuses_a_client_of_another_authority(void **state)
{
	struct kit *kit = *state;
	/* The client knows our authority, so that it is the server that
	 * refuses. */
	struct rpc_tls tls = stranger_pki.tls;

	tls.ca_file = server_pki.tls.ca_file;
	serve(kit, &server_pki.tls);
	dial(kit, &tls, NULL);
	assert_true(kit_unreachable(kit, "it refuses our certificate '"));
	assert_non_null(strstr(kit->err.msg, tls.cert_file));
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
}

static void refuses_a_server_of_another_authority(void **state)
{
	struct kit *kit = *state;

	serve(kit, &stranger_pki.tls);
	dial(kit, &client_pki.tls, NULL);
	assert_true(kit_unreachable(
		kit, "its certificate, by 'CN=others', is of no CA in"));
	assert_non_null(strstr(kit->err.msg, client_pki.tls.ca_file));
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
}

static void says_whose_certificate_expired(void **state)
{
	struct kit *kit = *state;

	serve(kit, &server_pki.tls);
	dial(kit, &old_pki.tls, NULL);
	assert_true(kit_unreachable(kit, "our certificate '"));
	assert_non_null(strstr(kit->err.msg, "/old.pem' expired on "));
	rpc_client_free(kit->client);
	kit_stop(kit);
	serve(kit, &old_pki.tls);
	dial(kit, &client_pki.tls, NULL);
	assert_true(kit_unreachable(kit, "its certificate expired on "));
}

/* Put the certificate of @from, with its key, in place of @pki's. */
static void renew(const struct pki *pki, const struct pki *from)
{
	openssl("cp -p %s %s.new; cp %s %s; mv %s.new %s", from->key, pki->key,
		from->cert, pki->cert, pki->key, pki->key);
}

/* Neither the server nor the client starts anew. */
static void takes_renewed_certificates(void **state)
{
	struct kit *kit = *state;
	struct pki theirs, own;

	make_cert_for(&theirs, "ours", "theirs", "IP:127.0.0.1", -1);
	make_cert_for(&own, "ours", "own", "IP:127.0.0.1", -1);
	serve(kit, &theirs.tls);
	dial(kit, &own.tls, NULL);
	assert_true(kit_unreachable(kit, "our certificate '"));
	renew(&own, &client_pki);
	assert_true(kit_unreachable(kit, "its certificate expired on "));
	renew(&theirs, &server_pki);
	if (kit_get(kit, "echo:x", 30000, NULL) < 0)
		fail_msg("%s", kit->err.msg);
	/* Half of a renewal: the key does not fit yet. */
	openssl("cp %s %s", named_pki.cert, theirs.cert);
	rpc_client_free(kit->client);
	dial(kit, &client_pki.tls, NULL);
	if (kit_get(kit, "echo:x", 30000, NULL) < 0)
		fail_msg("%s", kit->err.msg);
}

/* One server says nothing to a client, one speaks HTTP/2 without TLS. */
static void says_that_no_tls_is_spoken(void **state)
{
	struct kit *kit = *state;
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t length = sizeof(address);
	auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length),
			 0);
	(void)snprintf(kit->address, sizeof(kit->address), "tcp:127.0.0.1:%d",
		       ntohs(address.sin_port));
	dial(kit, &client_pki.tls, NULL);
	assert_true(kit_unreachable(kit, "does not speak TLS: it says "
					 "nothing"));
	rpc_client_free(kit->client);
	kit->options.allow_plain_tcp = true;
	serve(kit, NULL);
	dial(kit, &client_pki.tls, NULL);
	assert_true(kit_unreachable(kit, "does not speak TLS: "));
}

static void says_when_a_certificate_ends(void **state)
{
	const struct rpc_cert cert = {"/c.pem", 1000, 100 * 86400};
	const int64_t end_s = cert.end_s;
	char text[ERROR_TEXT_MAX];

	(void)state;
	assert_false(rpc_cert_warns(&cert, 1000, text));
	assert_false(rpc_cert_warns(&cert, end_s - RPC_CERT_SOON_S - 1, text));
	assert_true(rpc_cert_warns(&cert, end_s - RPC_CERT_SOON_S, text));
	assert_string_equal(text, "certificate '/c.pem' ends in 30 days, on "
				  "1970-04-11 00:00 UTC");
	assert_true(rpc_cert_warns(&cert, end_s - 86400, text));
	assert_non_null(strstr(text, "ends in 1 day, on"));
	assert_true(rpc_cert_warns(&cert, end_s, text));
	assert_string_equal(text, "certificate '/c.pem' expired on "
				  "1970-04-11 00:00 UTC");
	assert_true(rpc_cert_warns(&cert, 999, text));
	assert_non_null(strstr(text, "is not valid before 1970-01-01 00:16"));
	assert_true(rpc_cert_warns_of(&old_pki.tls, (int64_t)time(NULL), text));
	assert_non_null(strstr(text, "/old.pem' expired on "));
	assert_false(rpc_cert_warns_of(NULL, 0, text));
}

/* Of a chain the first to end counts, of authorities the last. */
static void of_several_certificates_the_right_one_counts(void **state)
{
	struct rpc_cert chain, any, old, ca;
	char both[128];

	(void)state;
	openssl("cd %s; cat ours.pem old.pem >both.pem", pki_dir);
	in_dir(both, "both", ".pem");
	assert_int_equal(rpc_cert_read(both, RPC_CERT_CHAIN, &chain, NULL), 0);
	assert_int_equal(rpc_cert_read(both, RPC_CERT_CA, &any, NULL), 0);
	assert_int_equal(
		rpc_cert_read(old_pki.cert, RPC_CERT_CHAIN, &old, NULL), 0);
	assert_int_equal(rpc_cert_read(old_pki.ca, RPC_CERT_CA, &ca, NULL), 0);
	assert_int_equal(chain.end_s, old.end_s);
	assert_int_equal(any.end_s, ca.end_s);
	assert_int_equal(rpc_cert_read(old_pki.key, RPC_CERT_CHAIN, &old, NULL),
			 -EINVAL);
}

/*
 * Count the bytes of HTTP/2 that answer a greeting by openssl; openssl presents
 * a certificate only when @more says so.
 */
static int greeting_bytes(struct kit *kit, const char *more)
{
	struct process_result result;
	char line[1024];
	const char *const argv[] = {"sh", "-c", line, NULL};
	int n;

	(void)snprintf(line, sizeof(line),
		       "{ printf 'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"
		       "\\0\\0\\0\\4\\0\\0\\0\\0\\0'; sleep 1; } | "
		       "openssl s_client -quiet -no_ign_eof -verify_quiet "
		       "-alpn h2 -CAfile %s -connect %s %s 2>/dev/null | wc -c",
		       server_pki.tls.ca_file, kit->address + 4, more);
	assert_int_equal(process_run(argv, NULL, 20000, -1, &result, NULL), 0);
	n = (int)strtol(result.out, NULL, 10);
	process_result_done(&result);
	return n;
}

static void refuses_a_client_without_a_certificate(void **state)
{
	struct kit *kit = *state;
	char with[300];

	serve(kit, &server_pki.tls);
	(void)snprintf(with, sizeof(with), "-cert %s -key %s",
		       client_pki.tls.cert_file, client_pki.tls.key_file);
	assert_int_equal(greeting_bytes(kit, ""), 0);
	/* and it is the certificate that was missing; a second may be short */
	for (int tries = 0; greeting_bytes(kit, with) == 0; tries++)
		assert_true(tries < 15);
}

static void refuses_a_client_that_speaks_plainly(void **state)
{
	struct kit *kit = *state;

	serve(kit, &server_pki.tls);
	dial(kit, NULL, NULL);
	assert_true(kit_unreachable(kit, ""));
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
}

static void refuses_plain_tcp_unless_allowed(void **state)
{
	struct kit *kit = *state;

	assert_int_equal(
		rpc_server_start(&kit->options, &kit->server, &kit->err),
		-EPERM);
	assert_non_null(strstr(kit->err.msg, "tcp:127.0.0.1:0"));
	kit->options.allow_plain_tcp = true;
	serve(kit, NULL);
	dial(kit, NULL, NULL);
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

static void serves_several_addresses(void **state)
{
	struct kit *kit = *state;
	char local[sizeof(kit->address)];
	const char *const all[] = {"tcp:127.0.0.1:0", local, "tcp:127.0.0.1:0"};

	(void)strcpy(local, kit->address);
	kit->options.addresses = all;
	kit->options.n_addresses = 3;
	serve(kit, &server_pki.tls);
	assert_int_equal(rpc_server_port(kit->server, 1), 0);
	assert_int_not_equal(rpc_server_port(kit->server, 0),
			     rpc_server_port(kit->server, 2));
	dial(kit, &client_pki.tls, NULL);
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
	rpc_client_free(kit->client);
	(void)strcpy(kit->address, local);
	dial(kit, &client_pki.tls, NULL); /* TLS is for tcp */
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

static void serves_by_name_and_by_ipv6(void **state)
{
	static const char *const hosts[] = {"localhost", "[::1]"};
	struct kit *kit = *state;

	kit->options.allow_plain_tcp = true;
	for (size_t i = 0; i < 2; i++) {
		int port;

		(void)snprintf(kit->address, sizeof(kit->address), "tcp:%s:0",
			       hosts[i]);
		kit->addresses[0] = kit->address;
		if (rpc_server_start(&kit->options, &kit->server, &kit->err) ==
		    -EADDRNOTAVAIL)
			continue; /* a machine without IPv6 */
		assert_non_null(kit->server);
		port = rpc_server_port(kit->server, 0);
		(void)snprintf(kit->address, sizeof(kit->address), "tcp:%s:%d",
			       hosts[i], port);
		dial(kit, NULL, NULL);
		if (kit_get(kit, "echo:x", 30000, NULL) < 0)
			fail_msg("%s", kit->err.msg);
		rpc_client_free(kit->client);
		kit->client = NULL;
		kit_stop(kit);
	}
}

static void refuses_a_busy_port(void **state)
{
	struct kit *kit = *state;
	struct rpc_server_options options;
	struct rpc_server *second;
	const char *address = kit->address;

	serve(kit, &server_pki.tls);
	options = kit->options;
	options.addresses = &address;
	assert_int_equal(rpc_server_start(&options, &second, &kit->err),
			 -EADDRINUSE);
	assert_non_null(strstr(kit->err.msg, kit->address));
}

static int start_error(struct kit *kit, const struct rpc_tls *tls)
{
	kit->options.tls = tls;
	return rpc_server_start(&kit->options, &kit->server, &kit->err);
}

static void refuses_a_key_that_others_can_read(void **state)
{
	struct kit *kit = *state;

	assert_int_equal(chmod(server_pki.key, 0640), 0);
	assert_int_equal(start_error(kit, &server_pki.tls), -EPERM);
	assert_non_null(strstr(kit->err.msg, server_pki.key));
	assert_non_null(strstr(kit->err.msg, "0640"));
	assert_int_equal(rpc_client_new("tcp:127.0.0.1:1", &server_pki.tls,
					NULL, &kit->client, NULL),
			 -EPERM);
	assert_int_equal(chmod(server_pki.key, 0600), 0);
}

/* Get the result of rpc_client_new() for a process of nobody's with @mode. */
static int nobody_opens(struct kit *kit, mode_t mode)
{
	int r;

	assert_int_equal(chmod(server_pki.key, mode), 0);
	assert_int_equal(setegid(NOBODY), 0);
	assert_int_equal(seteuid(NOBODY), 0);
	r = rpc_client_new("tcp:127.0.0.1:1", &server_pki.tls, NULL,
			   &kit->client, &kit->err);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setegid(0), 0);
	return r;
}

static void takes_a_key_of_root_that_its_group_may_read(void **state)
{
	struct kit *kit = *state;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(pki_dir, 0711), 0);
	assert_int_equal(chown(server_pki.key, 0, NOBODY), 0);
	assert_int_equal(nobody_opens(kit, 0444), -EPERM);
	assert_int_equal(nobody_opens(kit, 0460), -EPERM);
	assert_int_equal(nobody_opens(kit, 0440), 0);
	assert_int_equal(chown(server_pki.key, 0, 0), 0);
	assert_int_equal(chmod(server_pki.key, 0600), 0);
	assert_int_equal(chmod(pki_dir, 0700), 0);
}

static void says_which_file_is_wrong(void **state)
{
	struct kit *kit = *state;
	struct rpc_tls tls = server_pki.tls;

	tls.cert_file = "/nowhere/cert.pem";
	assert_int_equal(start_error(kit, &tls), -ENOENT);
	assert_non_null(strstr(kit->err.msg, "/nowhere/cert.pem"));
	tls.cert_file = "/proc/self/cmdline";
	assert_int_equal(start_error(kit, &tls), -EINVAL);
	assert_non_null(strstr(kit->err.msg, "no PEM file"));
	tls = server_pki.tls;
	tls.ca_file = NULL;
	assert_int_equal(start_error(kit, &tls), -EINVAL);
	assert_non_null(strstr(kit->err.msg, "TLS needs a CA"));
	/* one's certificate with another's key */
	tls = server_pki.tls;
	tls.key_file = client_pki.tls.key_file;
	assert_true(start_error(kit, &tls) < 0);
	assert_null(kit->server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, kit_teardown)
		T(serves_a_client_with_a_certificate),
		T(goes_by_the_name_it_was_told),
		T(refuses_a_server_of_another_name),
		T(refuses_a_client_of_another_authority),
		T(refuses_a_server_of_another_authority),
		T(says_whose_certificate_expired),
		T(takes_renewed_certificates),
		T(says_that_no_tls_is_spoken),
		T(says_when_a_certificate_ends),
		T(of_several_certificates_the_right_one_counts),
		T(refuses_a_client_without_a_certificate),
		T(refuses_a_client_that_speaks_plainly),
		T(refuses_plain_tcp_unless_allowed),
		T(serves_several_addresses),
		T(serves_by_name_and_by_ipv6),
		T(refuses_a_busy_port),
		T(refuses_a_key_that_others_can_read),
		T(takes_a_key_of_root_that_its_group_may_read),
		T(says_which_file_is_wrong),
	};

	return cmocka_run_group_tests(tests, make_pki, drop_pki);
}
