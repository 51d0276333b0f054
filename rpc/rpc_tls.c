/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <grpc/support/string_util.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
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

	r = file_read(AT_FDCWD, path, PEM_MAX, ret, ret_length, err);
	if (r < 0)
		return error_prefix(err, r, "%s: ", what);
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

static int missing(const char *what, struct error *err)
{
	return error_set(err, EINVAL, "TLS needs a %s: give its PEM file",
			 what);
}

int rpc_tls_copy(const struct rpc_tls *tls, struct rpc_tls **ret,
		 struct error *err)
{
	struct rpc_tls *copy;

	if (!tls->key_file)
		return missing("key", err);
	if (!tls->ca_file)
		return missing("CA", err);
	if (!tls->cert_file)
		return missing("certificate", err);
	copy = gpr_zalloc(sizeof(*copy));
	copy->ca_file = gpr_strdup(tls->ca_file);
	copy->cert_file = gpr_strdup(tls->cert_file);
	copy->key_file = gpr_strdup(tls->key_file);
	*ret = copy;
	return 0;
}

void rpc_tls_free(struct rpc_tls *tls)
{
	if (!tls)
		return;
	gpr_free((void *)tls->ca_file);
	gpr_free((void *)tls->cert_file);
	gpr_free((void *)tls->key_file);
	gpr_free(tls);
}

struct timespec rpc_tls_time(const struct rpc_tls *tls)
{
	struct stat st = {0};

	if (tls && stat(tls->cert_file, &st) < 0)
		st = (struct stat){0};
	return st.st_mtim;
}

/* Give the library what the files have now; called before each handshake. */
static grpc_ssl_certificate_config_reload_status config_fetch(
	void *context, grpc_ssl_server_certificate_config **ret)
{
	auto_cleanup(pem_done) struct pem pem = {0};
	struct error err = {0};
	grpc_ssl_pem_key_cert_pair pair;

	if (pem_load(context, &pem, &err) < 0) {
		log_warning("TLS goes on with what it has: %s",
			    error_text(&err));
		return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
	}
	pair.private_key = pem.key;
	pair.cert_chain = pem.cert;
	*ret = grpc_ssl_server_certificate_config_create(pem.ca, &pair, 1);
	return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

int rpc_tls_server(const struct rpc_tls *tls, grpc_server_credentials **ret,
		   struct error *err)
{
	auto_cleanup(pem_done) struct pem pem = {0};
	grpc_server_credentials *creds;
	int r = pem_load(tls, &pem, err); /* for the reason of a failure */

	if (r < 0)
		return r;
	creds = grpc_ssl_server_credentials_create_with_options(
		grpc_ssl_server_credentials_create_options_using_config_fetcher(
			GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
			config_fetch, (void *)tls));
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
