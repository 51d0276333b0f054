/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pki/pki.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/crypto.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define PEM_MAX    (1u << 20) /* bytes */
#define SERIAL_LEN 16         /* bytes; at most 20, RFC 5280 4.1.2.2 */
#define DAY_S      86400
/* Clocks of hosts differ: a certificate is valid a little before it is made. */
#define EARLY_S 300

static void key_done(gnutls_x509_privkey_t *key)
{
	if (*key)
		gnutls_x509_privkey_deinit(*key);
}

static void crt_done(gnutls_x509_crt_t *crt)
{
	if (*crt)
		gnutls_x509_crt_deinit(*crt);
}

#define auto_key auto_cleanup(key_done) gnutls_x509_privkey_t
#define auto_crt auto_cleanup(crt_done) gnutls_x509_crt_t

void pki_files_done(struct pki_files *files)
{
	if (files->key)
		explicit_bzero(files->key, strlen(files->key));
	free(files->authority);
	free(files->cert);
	free(files->key);
	*files = (struct pki_files){0};
}

static int library_failed(const char *what, int r, struct error *err)
{
	return error_set(err, r == GNUTLS_E_MEMORY_ERROR ? ENOMEM : EINVAL,
			 "%s: %s", what, gnutls_strerror(r));
}

/* ---- PEM ---- */

static int pem_copy(gnutls_datum_t *data, char **ret)
{
	*ret = strndup((const char *)data->data, data->size);
	gnutls_free(data->data);
	return *ret ? 0 : GNUTLS_E_MEMORY_ERROR;
}

static int crt_export(gnutls_x509_crt_t crt, char **ret)
{
	gnutls_datum_t data;
	int r = gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &data);

	return r < 0 ? r : pem_copy(&data, ret);
}

static int key_export(gnutls_x509_privkey_t key, char **ret)
{
	gnutls_datum_t data;
	int r = gnutls_x509_privkey_export2_pkcs8(
		key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &data);

	return r < 0 ? r : pem_copy(&data, ret);
}

static int pem_read(const char *dir, const char *name, char **ret,
		    struct error *err)
{
	auto_free char *path = NULL;
	size_t length;

	if (asprintf(&path, "%s/%s", dir, name) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return file_read(AT_FDCWD, path, PEM_MAX, ret, &length, err);
}

static int crt_import(const char *pem, const char *file, gnutls_x509_crt_t *ret,
		      struct error *err)
{
	const gnutls_datum_t data = {(unsigned char *)pem,
				     (unsigned)strlen(pem)};
	int r = gnutls_x509_crt_init(ret);

	if (r == 0)
		r = gnutls_x509_crt_import(*ret, &data, GNUTLS_X509_FMT_PEM);
	return r < 0 ? error_set(err, EINVAL, "certificate '%s': %s", file,
				 gnutls_strerror(r))
		     : 0;
}

static int key_import(const char *pem, const char *dir,
		      gnutls_x509_privkey_t *ret, struct error *err)
{
	const gnutls_datum_t data = {(unsigned char *)pem,
				     (unsigned)strlen(pem)};
	int r = gnutls_x509_privkey_init(ret);

	if (r == 0)
		r = gnutls_x509_privkey_import2(*ret, &data,
						GNUTLS_X509_FMT_PEM, NULL, 0);
	return r < 0 ? error_set(err, EINVAL,
				 "key '%s/" PKI_AUTHORITY_KEY "': %s", dir,
				 gnutls_strerror(r))
		     : 0;
}

/* ---- making ---- */

static int key_make(gnutls_x509_privkey_t *ret)
{
	int r = gnutls_x509_privkey_init(ret);

	if (r < 0)
		return r;
	return gnutls_x509_privkey_generate(
		*ret, GNUTLS_PK_ECDSA,
		GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
}

static int serial_set(gnutls_x509_crt_t crt)
{
	unsigned char serial[SERIAL_LEN];
	int r = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial));

	serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, of full length */
	return r < 0 ? r
		     : gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
}

static int host_set(gnutls_x509_crt_t crt, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];
	unsigned length = 0;

	if (inet_pton(AF_INET, host, address) == 1)
		length = sizeof(struct in_addr);
	else if (inet_pton(AF_INET6, host, address) == 1)
		length = sizeof(struct in6_addr);
	return gnutls_x509_crt_set_subject_alt_name(
		crt, length ? GNUTLS_SAN_IPADDRESS : GNUTLS_SAN_DNSNAME,
		length ? (const void *)address : host,
		length ? length : (unsigned)strlen(host), GNUTLS_FSAN_APPEND);
}

static int purpose_set(gnutls_x509_crt_t crt, const struct pki_cert *wanted)
{
	int r = 0;

	if (wanted->authority)
		return gnutls_x509_crt_set_key_usage(
			crt, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN);
	if (wanted->server)
		r = gnutls_x509_crt_set_key_purpose_oid(
			crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
	if (r == 0 && wanted->client)
		r = gnutls_x509_crt_set_key_purpose_oid(
			crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
	if (r == 0)
		r = gnutls_x509_crt_set_key_usage(crt,
						  GNUTLS_KEY_DIGITAL_SIGNATURE);
	return r;
}

static int crt_fill(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key,
		    const struct pki_cert *wanted)
{
	unsigned char id[64];
	size_t id_size = sizeof(id);
	int r = gnutls_x509_crt_set_version(crt, 3);

	if (r == 0)
		r = serial_set(crt);
	if (r == 0)
		r = gnutls_x509_crt_set_dn_by_oid(
			crt, GNUTLS_OID_X520_COMMON_NAME, 0, wanted->name,
			(unsigned)strlen(wanted->name));
	if (r == 0)
		r = gnutls_x509_crt_set_activation_time(crt, wanted->from_s);
	if (r == 0)
		r = gnutls_x509_crt_set_expiration_time(crt, wanted->end_s);
	if (r == 0)
		r = gnutls_x509_crt_set_basic_constraints(
			crt, wanted->authority, wanted->authority ? 0 : -1);
	for (size_t i = 0; r == 0 && i < wanted->n_hosts; i++)
		r = host_set(crt, wanted->hosts[i]);
	if (r == 0)
		r = purpose_set(crt, wanted);
	if (r == 0)
		r = gnutls_x509_crt_set_key(crt, key);
	if (r == 0)
		r = gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA1, id,
					       &id_size);
	if (r == 0)
		r = gnutls_x509_crt_set_subject_key_id(crt, id, id_size);
	return r;
}

/* @issuer NULL: it signs itself. */
static int crt_sign(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer,
		    gnutls_x509_privkey_t issuer_key)
{
	unsigned char id[64];
	size_t id_size = sizeof(id);
	int r = 0;

	if (issuer)
		r = gnutls_x509_crt_get_subject_key_id(issuer, id, &id_size,
						       NULL);
	/* An authority that somebody else made may have none. */
	if (issuer && r == 0)
		r = gnutls_x509_crt_set_authority_key_id(crt, id, id_size);
	if (r < 0 && r != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
		return r;
	return gnutls_x509_crt_sign2(crt, issuer ?: crt, issuer_key,
				     GNUTLS_DIG_SHA256, 0);
}

/* A new key and its certificate. */
static int pair_make(const struct pki_cert *wanted, gnutls_x509_crt_t issuer,
		     gnutls_x509_privkey_t issuer_key, struct pki_files *ret,
		     struct error *err)
{
	auto_key key = NULL;
	auto_crt crt = NULL;
	int r = key_make(&key);

	if (r == 0)
		r = gnutls_x509_crt_init(&crt);
	if (r == 0)
		r = crt_fill(crt, key, wanted);
	if (r == 0)
		r = crt_sign(crt, issuer, issuer_key ?: key);
	if (r == 0)
		r = crt_export(crt, &ret->cert);
	if (r == 0)
		r = key_export(key, &ret->key);
	return r < 0 ? library_failed("making a certificate", r, err) : 0;
}

/* ---- files ---- */

static int dir_open(const char *dir, struct error *err)
{
	int fd, r = dir_make(dir, 0700, err);

	if (r < 0)
		return r;
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? error_set(err, errno, "'%s': %s", dir, strerror(errno))
		      : fd;
}

static int text_write(int dirfd, const char *name, const char *text,
		      mode_t mode, struct error *err)
{
	return file_replace(dirfd, name, text, strlen(text), mode, err);
}

int pki_files_write(const char *dir, const struct pki_files *files,
		    struct error *err)
{
	auto_close int fd = dir_open(dir, err);
	int r = fd < 0 ? fd : 0;

	if (r == 0)
		r = text_write(fd, PKI_KEY, files->key, 0600, err);
	if (r == 0)
		r = text_write(fd, PKI_AUTHORITY_CERT, files->authority, 0644,
			       err);
	/* The last: readers look at its time. */
	if (r == 0)
		r = text_write(fd, PKI_CERT, files->cert, 0644, err);
	return r;
}

/* ---- the authority ---- */

static int authority_is_there(int dirfd, const char *dir, struct error *err)
{
	bool key = faccessat(dirfd, PKI_AUTHORITY_KEY, F_OK, 0) == 0;
	bool cert = faccessat(dirfd, PKI_AUTHORITY_CERT, F_OK, 0) == 0;

	/* The key is written first: a crash may have left it alone. */
	if (cert && !key)
		return error_set(err, EEXIST,
				 "'%s' has " PKI_AUTHORITY_CERT
				 " and no " PKI_AUTHORITY_KEY
				 ": it is no authority that can sign",
				 dir);
	return cert;
}

static int name_fits(const char *what, const char *name, size_t size,
		     struct error *err)
{
	if (!name[0] || strlen(name) >= size)
		return error_set(err, EINVAL, "%s '%.64s': 1 to %zu bytes",
				 what, name, size - 1);
	for (const char *c = name; *c; c++)
		if (*c <= ' ' || *c > '~')
			return error_set(err, EINVAL,
					 "%s '%.64s': letters, digits and "
					 "signs of ASCII only",
					 what, name);
	return 0;
}

int pki_authority_make(const char *dir, const char *name, unsigned days,
		       bool *ret_made, struct error *err)
{
	const int64_t now = (int64_t)time(NULL);
	struct pki_cert wanted = {
		.authority = true,
		.from_s = now - EARLY_S,
		.end_s = now + (int64_t)days * DAY_S,
	};
	auto_cleanup(pki_files_done) struct pki_files files = {0};
	auto_close int fd = -1;
	int r = name_fits("the authority's name", name, sizeof(wanted.name),
			  err);

	if (r < 0)
		return r;
	(void)strcpy(wanted.name, name); /* checked just above */
	fd = dir_open(dir, err);
	r = fd < 0 ? fd : authority_is_there(fd, dir, err);
	*ret_made = r == 0;
	if (r != 0)
		return r < 0 ? r : 0;
	r = pair_make(&wanted, NULL, NULL, &files, err);
	if (r == 0)
		r = text_write(fd, PKI_AUTHORITY_KEY, files.key, 0600, err);
	if (r == 0)
		r = text_write(fd, PKI_AUTHORITY_CERT, files.cert, 0644, err);
	return r;
}

/* Read the authority; its certificate's text is @ret_pem, owned. */
static int authority_read(const char *dir, gnutls_x509_crt_t *ret_crt,
			  gnutls_x509_privkey_t *ret_key, char **ret_pem,
			  struct error *err)
{
	auto_free char *key_pem = NULL;
	int r = pem_read(dir, PKI_AUTHORITY_CERT, ret_pem, err);

	if (r == 0)
		r = pem_read(dir, PKI_AUTHORITY_KEY, &key_pem, err);
	if (r == -ENOENT)
		return error_set(err, ENOENT,
				 "'%s' has no authority; make one by "
				 "`trib pki init`, on one host",
				 dir);
	if (r == 0)
		r = crt_import(*ret_pem, dir, ret_crt, err);
	if (r == 0)
		r = key_import(key_pem, dir, ret_key, err);
	if (key_pem)
		explicit_bzero(key_pem, strlen(key_pem));
	return r;
}

static int wanted_check(const struct pki_cert *wanted, struct error *err)
{
	int r = name_fits("the name", wanted->name, sizeof(wanted->name), err);

	for (size_t i = 0; r == 0 && i < wanted->n_hosts; i++)
		r = name_fits("host", wanted->hosts[i], PKI_HOST_SIZE, err);
	if (r == 0 && !wanted->server && !wanted->client)
		r = error_set(err, EINVAL,
			      "a certificate for neither a server nor a "
			      "client");
	return r;
}

int pki_issue(const char *dir, const struct pki_cert *wanted, unsigned days,
	      struct pki_files *ret, struct error *err)
{
	auto_cleanup(pki_files_done) struct pki_files files = {0};
	const int64_t now = (int64_t)time(NULL);
	struct pki_cert cert = *wanted;
	auto_crt issuer = NULL;
	auto_key issuer_key = NULL;
	int64_t last;
	int r = wanted_check(wanted, err);

	if (r == 0)
		r = authority_read(dir, &issuer, &issuer_key, &files.authority,
				   err);
	if (r < 0)
		return r;
	last = gnutls_x509_crt_get_expiration_time(issuer);
	if (last <= now)
		return error_set(err, EINVAL,
				 "the authority in '%s' has expired; move it "
				 "away and make another",
				 dir);
	cert.authority = false;
	cert.from_s = now - EARLY_S;
	cert.end_s = now + (int64_t)days * DAY_S;
	if (cert.end_s > last)
		cert.end_s = last;
	r = pair_make(&cert, issuer, issuer_key, &files, err);
	if (r == 0) {
		*ret = files;
		files = (struct pki_files){0};
	}
	return r;
}
