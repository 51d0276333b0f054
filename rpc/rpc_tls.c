/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "rpc/rpc_internal.h"

#define PEM_MAX (1u << 20) /* bytes: a chain or bundle is far smaller */

struct pem {
	char *ca, *cert, *key; /* owned */
	size_t key_length;
};

static void pem_done(struct pem *pem)
{
	if (pem->key)
		explicit_bzero(pem->key, pem->key_length);
	free(pem->ca);
	free(pem->cert);
	free(pem->key);
}

static int pem_read(const char *what, const char *path, char **ret,
		    size_t *ret_length, struct error *err)
{
	int r;

	if (!path)
		return error_set(err, EINVAL,
				 "TLS needs a %s: give its PEM file", what);
	r = file_read(AT_FDCWD, path, PEM_MAX, ret, ret_length, err);
	if (r < 0) {
		(void)error_prefix(err, "%s: ", what);
		return r;
	}
	if (!strstr(*ret, "-----BEGIN "))
		return error_set(err, EINVAL, "%s '%s' is no PEM file", what,
				 path);
	return 0;
}

/*
 * A key that others can read is no secret. A key of root's that our group may
 * read is how an orchestrator hands one to a process that is not root.
 */
static int key_check(const char *path, struct error *err)
{
	struct stat st;
	mode_t others = 077;

	if (!path)
		return 0; /* pem_read() says so */
	if (stat(path, &st) < 0)
		return error_set(err, errno, "key: '%s': %s", path,
				 strerror(errno));
	if (st.st_uid == 0 && geteuid() != 0)
		others = 037;
	if (st.st_mode & others)
		return error_set(err, EPERM,
				 "key '%s' has mode %04o: others can use it; "
				 "chmod 600 it, and replace it if they might "
				 "have",
				 path, (unsigned)st.st_mode & 07777);
	return 0;
}

static int pem_load(const struct rpc_tls *tls, struct pem *pem,
		    struct error *err)
{
	size_t length;
	int r = key_check(tls->key_file, err);

	if (r < 0)
		return r;
	r = pem_read("CA", tls->ca_file, &pem->ca, &length, err);
	if (r < 0)
		return r;
	r = pem_read("certificate", tls->cert_file, &pem->cert, &length, err);
	if (r < 0)
		return r;
	return pem_read("key", tls->key_file, &pem->key, &pem->key_length, err);
}

static int refused(const struct rpc_tls *tls, struct error *err)
{
	return error_set(err, EINVAL,
			 "certificate '%s', key '%s' and CA '%s' can't be used "
			 "together: are they PEM, and does the key fit?",
			 tls->cert_file, tls->key_file, tls->ca_file);
}

int rpc_tls_server(const struct rpc_tls *tls, grpc_server_credentials **ret,
		   struct error *err)
{
	auto_cleanup(pem_done) struct pem pem = {0};
	grpc_ssl_pem_key_cert_pair pair;
	grpc_server_credentials *creds;
	int r = pem_load(tls, &pem, err);

	if (r < 0)
		return r;
	pair.private_key = pem.key;
	pair.cert_chain = pem.cert;
	creds = grpc_ssl_server_credentials_create_ex(
		pem.ca, &pair, 1,
		GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
		NULL);
	if (!creds)
		return refused(tls, err);
	*ret = creds;
	return 0;
}

int rpc_tls_channel(const struct rpc_tls *tls, grpc_channel_credentials **ret,
		    struct error *err)
{
	auto_cleanup(pem_done) struct pem pem = {0};
	grpc_ssl_pem_key_cert_pair pair;
	grpc_channel_credentials *creds;
	int r = pem_load(tls, &pem, err);

	if (r < 0)
		return r;
	pair.private_key = pem.key;
	pair.cert_chain = pem.cert;
	creds = grpc_ssl_credentials_create_ex(pem.ca, &pair, NULL, NULL);
	if (!creds)
		return refused(tls, err);
	*ret = creds;
	return 0;
}
