/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: tests/kube/fake_apiserver with its certificates and kubeconfig
 * in a folder of its own. All fail by cmocka's assertions.
 */
#ifndef VOLUME_KUBE_TEST_SERVER_H
#define VOLUME_KUBE_TEST_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

#define TEST_TOKEN "secret-token-0123456789"

struct test_server {
	char directory[64];
	char location[160]; /* "kube:tributary,kubeconfig=.." with a token */
	int port;
	pid_t pid;
};

/* The certificates, once. False: the tools for that are missing. */
bool test_server_prepare(struct test_server *server);
void test_server_start(struct test_server *server);
void test_server_stop(struct test_server *server);
/* Everything in its folder, too. */
void test_server_remove(struct test_server *server);

/* Write NAME in its folder. */
void test_server_write(struct test_server *server, const char *name,
		       const char *text);
/* "GET REGEX COUNT ACTION.." and so on; see the script. */
void test_server_faults(struct test_server *server, const char *faults);
/*
 * Count the requests since the last call that had @method and a path with @part
 * in it. Then forget them all.
 */
unsigned test_server_count(struct test_server *server, const char *method,
			   const char *part);

#endif
