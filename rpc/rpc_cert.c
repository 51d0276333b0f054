/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc_cert.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/file.h"

#define PEM_MAX (1u << 20) /* bytes */
#define CHAIN   64         /* certificates of a file, at most */
#define WAIT_S  1          /* for each step of the peer's */
#define DN_MAX  256        /* bytes of a distinguished name shown */

/* ---- dates ---- */

static void count(struct rpc_cert *cert, gnutls_x509_crt_t crt, bool any)
{
	int64_t from = gnutls_x509_crt_get_activation_time(crt);
	int64_t end = gnutls_x509_crt_get_expiration_time(crt);

	if (!cert->end_s || (any ? end > cert->end_s : end < cert->end_s)) {
		cert->from_s = from;
		cert->end_s = end;
	}
}

int rpc_cert_read(const char *file, enum rpc_cert_kind kind,
		  struct rpc_cert *ret, struct error *err)
{
	struct rpc_cert cert = {.file = file};
	gnutls_x509_crt_t list[CHAIN];
	unsigned n = CHAIN;
	auto_free char *pem = NULL;
	gnutls_datum_t data;
	size_t length;
	int r = file_read(AT_FDCWD, file, PEM_MAX, &pem, &length, err);

	if (r < 0)
		return r;
	data.data = (unsigned char *)pem;
	data.size = (unsigned)length;
	r = gnutls_x509_crt_list_import(list, &n, &data, GNUTLS_X509_FMT_PEM,
					0);
	if (r < 0)
		return error_set(err, EINVAL, "certificate '%s': %s", file,
				 gnutls_strerror(r));
	for (unsigned i = 0; i < (unsigned)r; i++) {
		count(&cert, list[i], kind == RPC_CERT_CA);
		gnutls_x509_crt_deinit(list[i]);
	}
	if (r == 0)
		return error_set(err, EINVAL, "'%s' has no certificate", file);
	*ret = cert;
	return 0;
}

/* "2026-11-26 10:00 UTC"; @ret: 32 bytes */
static const char *date(char *ret, int64_t s)
{
	time_t at = (time_t)s;
	struct tm tm;

	if (!gmtime_r(&at, &tm) || !strftime(ret, 32, "%F %R UTC", &tm))
		(void)strcpy(ret, "another day");
	return ret;
}

bool rpc_cert_warns(const struct rpc_cert *cert, int64_t now_s, char *ret_text)
{
	long long days = (long long)((cert->end_s - now_s) / 86400);
	char when[32];

	if (now_s < cert->from_s)
		(void)snprintf(ret_text, ERROR_TEXT_MAX,
			       "certificate '%.300s' is not valid before %s",
			       cert->file, date(when, cert->from_s));
	else if (now_s >= cert->end_s)
		(void)snprintf(ret_text, ERROR_TEXT_MAX,
			       "certificate '%.300s' expired on %s", cert->file,
			       date(when, cert->end_s));
	else if (cert->end_s - now_s <= RPC_CERT_SOON_S)
		(void)snprintf(ret_text, ERROR_TEXT_MAX,
			       "certificate '%.300s' ends in %lld day%s, on %s",
			       cert->file, days, days == 1 ? "" : "s",
			       date(when, cert->end_s));
	else
		return false;
	return true;
}

static bool file_warns(const char *file, enum rpc_cert_kind kind, int64_t now_s,
		       char *ret_text)
{
	struct rpc_cert cert;

	/* An unreadable file is refused with a reason where it is used. */
	return file && file[0] && rpc_cert_read(file, kind, &cert, NULL) == 0 &&
	       rpc_cert_warns(&cert, now_s, ret_text);
}

bool rpc_cert_warns_of(const struct rpc_tls *tls, int64_t now_s, char *ret_text)
{
	return tls &&
	       (file_warns(tls->cert_file, RPC_CERT_CHAIN, now_s, ret_text) ||
		file_warns(tls->ca_file, RPC_CERT_CA, now_s, ret_text));
}

/* ---- why not ---- */

static int dial(const struct rpc_address *address)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	const struct timeval wait = {.tv_sec = WAIT_S};
	struct addrinfo *list, *a;
	char port[8];
	int fd = -1;

	(void)snprintf(port, sizeof(port), "%u", address->port);
	if (getaddrinfo(address->host, port, &hints, &list) != 0)
		return -1;
	for (a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		/* Also how long connect() may take: socket(7). */
		(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait,
				 sizeof(wait));
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait,
				 sizeof(wait));
		if (connect(fd, a->ai_addr, a->ai_addrlen) < 0)
			fd_close(take_fd(&fd));
	}
	freeaddrinfo(list);
	return fd;
}

/* Get the issuer of a certificate; @ret: DN_MAX bytes */
static const char *issuer(gnutls_x509_crt_t crt, char *ret)
{
	size_t size = DN_MAX;

	if (gnutls_x509_crt_get_issuer_dn(crt, ret, &size) < 0)
		(void)strcpy(ret, "?");
	return ret;
}

static void say_theirs(gnutls_session_t session, const struct rpc_tls *tls,
		       unsigned status, char *ret_text)
{
	struct rpc_cert cert = {.file = "that it shows"};
	char name[DN_MAX], when[32];
	const gnutls_datum_t *chain;
	gnutls_x509_crt_t crt;
	unsigned n = 0;

	chain = gnutls_certificate_get_peers(session, &n);
	if (!chain || n == 0 || gnutls_x509_crt_init(&crt) < 0) {
		(void)strcpy(ret_text, "it shows no certificate");
		return;
	}
	if (gnutls_x509_crt_import(crt, chain, GNUTLS_X509_FMT_DER) == 0)
		count(&cert, crt, false);
	if (status & GNUTLS_CERT_EXPIRED)
		(void)snprintf(ret_text, ERROR_TEXT_MAX,
			       "its certificate expired on %s",
			       date(when, cert.end_s));
	else if (status & GNUTLS_CERT_NOT_ACTIVATED)
		(void)snprintf(ret_text, ERROR_TEXT_MAX,
			       "its certificate is not valid before %s",
			       date(when, cert.from_s));
	else
		(void)snprintf(ret_text, ERROR_TEXT_MAX,
			       "its certificate, by '%s', is of no CA in "
			       "'%.300s'",
			       issuer(crt, name), tls->ca_file);
	gnutls_x509_crt_deinit(crt);
}

/* Say that the peer refused, after the handshake (TLS 1.3), or in it. */
static void say_refused(gnutls_session_t session, const struct rpc_tls *tls,
			int r, char *ret_text)
{
	const char *alert = r == GNUTLS_E_FATAL_ALERT_RECEIVED
				    ? gnutls_alert_get_name(
					      gnutls_alert_get(session))
				    : NULL;

	(void)snprintf(ret_text, ERROR_TEXT_MAX,
		       "it refuses our certificate '%.300s'%s%s; is it of its "
		       "CA?",
		       tls->cert_file, alert ? ": " : "", alert ?: "");
}

static int handshake(gnutls_session_t session)
{
	int r, tries = 16; /* warnings, and what is cut short */

	do
		r = gnutls_handshake(session);
	while (r < 0 && !gnutls_error_is_fatal(r) && r != GNUTLS_E_AGAIN &&
	       --tries);
	return r;
}

static bool explain(gnutls_session_t session, const struct rpc_tls *tls,
		    char *ret_text)
{
	unsigned status = 0;
	char byte;
	ssize_t n;
	int r = handshake(session);

	if (r == GNUTLS_E_FATAL_ALERT_RECEIVED) {
		say_refused(session, tls, r, ret_text);
		return true;
	}
	if (r < 0) {
		(void)snprintf(ret_text, ERROR_TEXT_MAX,
			       "it accepts connections but does not speak "
			       "TLS: %s",
			       r == GNUTLS_E_AGAIN ? "it says nothing"
						   : gnutls_strerror(r));
		return true;
	}
	if (gnutls_certificate_verify_peers2(session, &status) < 0 || status) {
		say_theirs(session, tls, status, ret_text);
		return true;
	}
	/* A server that accepts us begins to speak HTTP/2 (RFC 9113 3.4). */
	do
		n = gnutls_record_recv(session, &byte, 1);
	while (n == GNUTLS_E_INTERRUPTED);
	if (n > 0 || n == GNUTLS_E_AGAIN)
		return false;
	say_refused(session, tls, (int)n, ret_text);
	return true;
}

static bool own_fails(const struct rpc_tls *tls, int64_t now_s, char *ret_text)
{
	struct rpc_cert cert;
	char text[ERROR_TEXT_MAX];

	if (rpc_cert_read(tls->cert_file, RPC_CERT_CHAIN, &cert, NULL) < 0 ||
	    (now_s >= cert.from_s && now_s < cert.end_s) ||
	    !rpc_cert_warns(&cert, now_s, text))
		return false;
	(void)snprintf(ret_text, ERROR_TEXT_MAX, "our %.*s", ERROR_TEXT_MAX - 5,
		       text);
	return true;
}

bool rpc_cert_why_not(const struct rpc_address *address,
		      const struct rpc_tls *tls, char *ret_text)
{
	static const gnutls_datum_t h2 = {(unsigned char *)"h2", 2};
	gnutls_certificate_credentials_t creds;
	gnutls_session_t session;
	auto_close int fd = -1;
	bool known = false;

	if (own_fails(tls, (int64_t)time(NULL), ret_text))
		return true;
	fd = dial(address);
	if (fd < 0 || gnutls_certificate_allocate_credentials(&creds) < 0)
		return false;
	if (gnutls_certificate_set_x509_trust_file(creds, tls->ca_file,
						   GNUTLS_X509_FMT_PEM) > 0 &&
	    gnutls_certificate_set_x509_key_file(creds, tls->cert_file,
						 tls->key_file,
						 GNUTLS_X509_FMT_PEM) == 0 &&
	    gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL) == 0) {
		if (gnutls_set_default_priority(session) == 0 &&
		    gnutls_alpn_set_protocols(session, &h2, 1, 0) == 0 &&
		    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE,
					   creds) == 0) {
			gnutls_transport_set_int(session, fd);
			known = explain(session, tls, ret_text);
		}
		gnutls_deinit(session);
	}
	gnutls_certificate_free_credentials(creds);
	return known;
}
