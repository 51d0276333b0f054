/* SPDX-License-Identifier: Apache-2.0 */
#include "target/net/tls.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define OUTPUT_MAX  (UINT32_C(1) << 20) /* bytes; of what we say ourselves */
#define RECORD_MAX  16384u              /* bytes of data; RFC 8446 5.1 */
#define RECORD_MORE 512u                /* bytes around it, at most */

/*
 * Protocols that others have to agree to: TLS 1.2 and 1.3, ciphers that the
 * library trusts.
 */
#define PRIORITY     "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"
#define PRIORITY_PSK ":+ECDHE-PSK:+DHE-PSK:+PSK"

struct tls_server {
	gnutls_certificate_credentials_t certificates; /* NULL: none */
	gnutls_psk_server_credentials_t keys;          /* NULL: none */
	gnutls_priority_t priority;
	bool asks; /* clients for certificates */
};

struct tls_session {
	const struct tls_server *server;
	gnutls_session_t gnutls;
	bool open;
	struct peer_names names;
	uint32_t in_start, in_end;       /* of in[] */
	size_t out_start, out_end, size; /* of out */
	uint8_t *out;
	uint8_t in[TLS_INPUT_SIZE];
};

/* ---- credentials ---- */

/*
 * A key that others can read is no secret. One of root's that our group may
 * read is how an orchestrator hands it to a process that is not root.
 */
static int secret_check(const char *path, struct error *err)
{
	struct stat st;
	mode_t others = 077;

	if (stat(path, &st) < 0)
		return error_set(err, errno, "TLS: '%s': %s", path,
				 strerror(errno));
	if (st.st_uid == 0 && geteuid() != 0)
		others = 037;
	if (st.st_mode & others)
		return error_set(err, EPERM,
				 "TLS: '%s' has mode %04o: others can use it; "
				 "chmod 600 it, and replace it if they might "
				 "have",
				 path, (unsigned)st.st_mode & 07777);
	return 0;
}

static int refused(const char *path, int code, struct error *err)
{
	return error_set(err, EINVAL, "TLS: '%s': %s", path,
			 gnutls_strerror(code));
}

static int certificates_load(struct tls_server *server,
			     const struct tls_files *files, struct error *err)
{
	int r = secret_check(files->key, err);

	if (r < 0)
		return r;
	if (gnutls_certificate_allocate_credentials(&server->certificates) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = gnutls_certificate_set_x509_key_file(server->certificates,
						 files->cert, files->key,
						 GNUTLS_X509_FMT_PEM);
	if (r < 0)
		return error_set(err, EINVAL,
				 "TLS: certificate '%s', key '%s': %s",
				 files->cert, files->key, gnutls_strerror(r));
	if (!files->ca)
		return 0;
	r = gnutls_certificate_set_x509_trust_file(
		server->certificates, files->ca, GNUTLS_X509_FMT_PEM);
	if (r <= 0)
		return refused(files->ca,
			       r < 0 ? r : GNUTLS_E_NO_CERTIFICATE_FOUND, err);
	server->asks = true;
	return 0;
}

static int keys_load(struct tls_server *server, const char *path,
		     struct error *err)
{
	int r = secret_check(path, err);

	if (r < 0)
		return r;
	if (access(path, R_OK) < 0)
		return error_set(err, errno, "TLS: '%s': %s", path,
				 strerror(errno));
	if (gnutls_psk_allocate_server_credentials(&server->keys) < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = gnutls_psk_set_server_credentials_file(server->keys, path);
	return r < 0 ? refused(path, r, err) : 0;
}

static int files_check(const struct tls_files *files, struct error *err)
{
	if (!files->cert != !files->key)
		return error_set(err, EINVAL,
				 "TLS: a certificate and its key go together");
	if (files->ca && !files->cert)
		return error_set(err, EINVAL,
				 "TLS: a CA for clients goes with a "
				 "certificate of ours");
	if (!files->cert && !files->psk)
		return error_set(err, EINVAL,
				 "TLS: neither a certificate nor a PSK file");
	return 0;
}

int tls_server_new(const struct tls_files *files, struct tls_server **ret,
		   struct error *err)
{
	struct tls_server *server;
	int r = files_check(files, err);

	if (r < 0)
		return r;
	server = calloc(1, sizeof(*server));
	if (!server)
		return error_set(err, ENOMEM, "out of memory");
	if (gnutls_priority_init(&server->priority,
				 files->psk ? PRIORITY PRIORITY_PSK : PRIORITY,
				 NULL) < 0)
		r = error_set(err, ENOMEM, "TLS: it can't be set up");
	if (r == 0 && files->cert)
		r = certificates_load(server, files, err);
	if (r == 0 && files->psk)
		r = keys_load(server, files->psk, err);
	if (r < 0) {
		tls_server_free(server);
		return r;
	}
	*ret = server;
	return 0;
}

void tls_server_free(struct tls_server *server)
{
	if (!server)
		return;
	if (server->certificates)
		gnutls_certificate_free_credentials(server->certificates);
	if (server->keys)
		gnutls_psk_free_server_credentials(server->keys);
	if (server->priority)
		gnutls_priority_deinit(server->priority);
	free(server);
}

/* ---- the library's side of the buffers ---- */

static ssize_t pull(gnutls_transport_ptr_t context, void *data, size_t length)
{
	struct tls_session *s = context;
	size_t there = s->in_end - s->in_start;
	size_t n = length < there ? length : there;

	if (n == 0) {
		gnutls_transport_set_errno(s->gnutls, EAGAIN);
		return -1;
	}
	memcpy(data, s->in + s->in_start, n);
	s->in_start += (uint32_t)n;
	return (ssize_t)n;
}

/* Room for @length bytes behind the output; they are bounded by ourselves. */
static bool output_grow(struct tls_session *s, size_t length)
{
	size_t size = s->size ?: 4096;
	uint8_t *grown;

	if (s->size - s->out_end >= length)
		return true;
	if (s->out_end + length > OUTPUT_MAX)
		return false;
	while (size - s->out_end < length)
		size *= 2;
	grown = realloc(s->out, size);
	if (!grown)
		return false;
	s->out = grown;
	s->size = size;
	return true;
}

static ssize_t push(gnutls_transport_ptr_t context, const void *data,
		    size_t length)
{
	struct tls_session *s = context;

	if (!output_grow(s, length)) {
		gnutls_transport_set_errno(s->gnutls, ENOMEM);
		return -1;
	}
	memcpy(s->out + s->out_end, data, length);
	s->out_end += length;
	return (ssize_t)length;
}

/* ---- a session ---- */

static int session_setup(struct tls_session *s)
{
	const struct tls_server *server = s->server;
	gnutls_session_t g;

	if (gnutls_init(&s->gnutls, GNUTLS_SERVER | GNUTLS_NONBLOCK |
					    GNUTLS_NO_SIGNAL |
					    GNUTLS_NO_TICKETS) < 0)
		return -ENOMEM;
	g = s->gnutls;
	if (gnutls_priority_set(g, server->priority) < 0)
		return -ENOMEM;
	if (server->certificates &&
	    gnutls_credentials_set(g, GNUTLS_CRD_CERTIFICATE,
				   server->certificates) < 0)
		return -ENOMEM;
	if (server->keys &&
	    gnutls_credentials_set(g, GNUTLS_CRD_PSK, server->keys) < 0)
		return -ENOMEM;
	if (server->asks) {
		gnutls_certificate_server_set_request(g, GNUTLS_CERT_REQUIRE);
		/* The chain, and that it is for a client. */
		gnutls_session_set_verify_cert(g, NULL, 0);
	}
	gnutls_transport_set_ptr(g, s);
	gnutls_transport_set_pull_function(g, pull);
	gnutls_transport_set_push_function(g, push);
	/* The owner has a deadline of its own. */
	gnutls_handshake_set_timeout(g, GNUTLS_INDEFINITE_TIMEOUT);
	return 0;
}

int tls_session_new(const struct tls_server *server, struct tls_session **ret)
{
	/* Not cleared: in[] is touched as far as bytes come. */
	struct tls_session *s = malloc(sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	memset(s, 0, offsetof(struct tls_session, in));
	s->server = server;
	r = session_setup(s);
	if (r < 0) {
		tls_session_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void tls_session_free(struct tls_session *s)
{
	if (!s)
		return;
	if (s->gnutls)
		gnutls_deinit(s->gnutls);
	free(s->out);
	free(s);
}

void *tls_session_room(struct tls_session *s, uint32_t *ret_length)
{
	if (s->in_start > 0) { /* at most the part of a record */
		memmove(s->in, s->in + s->in_start, s->in_end - s->in_start);
		s->in_end -= s->in_start;
		s->in_start = 0;
	}
	*ret_length = TLS_INPUT_SIZE - s->in_end;
	return s->in + s->in_end;
}

void tls_session_put(struct tls_session *s, uint32_t length)
{
	s->in_end += length;
}

const void *tls_session_output(struct tls_session *s, size_t *ret_length)
{
	*ret_length = s->out_end - s->out_start;
	return s->out ? s->out + s->out_start : NULL;
}

void tls_session_sent(struct tls_session *s, size_t length)
{
	s->out_start += length;
	if (s->out_start == s->out_end)
		s->out_start = s->out_end = 0;
}

/* ---- the peer's names ---- */

static void names_of_certificate(struct tls_session *s)
{
	unsigned n = 0;
	const gnutls_datum_t *chain = gnutls_certificate_get_peers(s->gnutls,
								   &n);
	char name[PEER_NAME_MAX];
	gnutls_x509_crt_t cert;
	size_t size = sizeof(name);

	if (!chain || n == 0 || gnutls_x509_crt_init(&cert) < 0)
		return;
	if (gnutls_x509_crt_import(cert, &chain[0], GNUTLS_X509_FMT_DER) == 0) {
		if (gnutls_x509_crt_get_dn_by_oid(cert,
						  GNUTLS_OID_X520_COMMON_NAME,
						  0, 0, name, &size) == 0)
			peer_names_add(&s->names, name, size);
		for (unsigned i = 0; i < PEER_NAMES_MAX; i++) {
			int type;

			size = sizeof(name);
			type = gnutls_x509_crt_get_subject_alt_name(
				cert, i, name, &size, NULL);
			if (type == GNUTLS_SAN_DNSNAME ||
			    type == GNUTLS_SAN_URI)
				peer_names_add(&s->names, name, size);
		}
	}
	gnutls_x509_crt_deinit(cert);
}

static void names_find(struct tls_session *s)
{
	const char *name;

	if (gnutls_auth_client_get_type(s->gnutls) == GNUTLS_CRD_PSK) {
		name = gnutls_psk_server_get_username(s->gnutls);
		if (name)
			peer_names_add(&s->names, name, strlen(name));
	} else if (s->server->asks) { /* and so verified */
		names_of_certificate(s);
	}
}

const struct peer_names *tls_session_names(const struct tls_session *s)
{
	return &s->names;
}

const char *tls_session_describe(const struct tls_session *s, char *buf,
				 size_t size)
{
	(void)snprintf(buf, size, "%s %s",
		       gnutls_protocol_get_name(
			       gnutls_protocol_get_version(s->gnutls)),
		       gnutls_cipher_get_name(gnutls_cipher_get(s->gnutls)));
	return buf;
}

/* ---- the handshake and the data ---- */

static bool again(int code)
{
	return code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED;
}

int tls_session_handshake(struct tls_session *s, struct error *err)
{
	int code;

	do
		code = gnutls_handshake(s->gnutls);
	while (code < 0 && !again(code) && !gnutls_error_is_fatal(code));
	if (again(code))
		return -EAGAIN;
	if (code < 0) {
		(void)gnutls_alert_send_appropriate(s->gnutls, code);
		return error_set(err, EPROTO, "TLS: %s", gnutls_strerror(code));
	}
	s->open = true;
	names_find(s);
	return 0;
}

bool tls_session_open(const struct tls_session *s)
{
	return s->open;
}

ssize_t tls_session_read(struct tls_session *s, void *data, size_t length)
{
	ssize_t n;

	do /* what is not data, as a new key, is dealt with inside */
		n = gnutls_record_recv(s->gnutls, data, length);
	while (n == GNUTLS_E_INTERRUPTED);
	if (n == GNUTLS_E_AGAIN)
		return -EAGAIN;
	return n < 0 ? -EPROTO : n;
}

ssize_t tls_session_write(struct tls_session *s, const void *data,
			  size_t length)
{
	size_t most = length < RECORD_MAX ? length : RECORD_MAX;
	ssize_t n;

	if (s->out_end - s->out_start >= TLS_OUTPUT_SIZE)
		return 0;
	if (!output_grow(s, most + RECORD_MORE))
		return -EPROTO;
	n = gnutls_record_send(s->gnutls, data, most);
	return n <= 0 ? -EPROTO : n;
}

void tls_session_end(struct tls_session *s)
{
	if (s->open)
		(void)gnutls_bye(s->gnutls, GNUTLS_SHUT_WR);
}
