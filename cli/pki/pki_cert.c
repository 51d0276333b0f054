/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "cli/pki/pki.h"

#define PEM_MAX (1u << 20) /* bytes */
#define DAY_S   86400

static void host_read(gnutls_x509_crt_t crt, unsigned index,
		      struct pki_cert *ret)
{
	char *host = ret->hosts[ret->n_hosts];
	unsigned char data[PKI_HOST_SIZE];
	size_t size = sizeof(data) - 1;
	int type = gnutls_x509_crt_get_subject_alt_name(crt, index, data, &size,
							NULL);

	if (type == GNUTLS_SAN_IPADDRESS)
		(void)inet_ntop(size == sizeof(struct in_addr) ? AF_INET
							       : AF_INET6,
				data, host, PKI_HOST_SIZE);
	else if (type == GNUTLS_SAN_DNSNAME)
		(void)snprintf(host, PKI_HOST_SIZE, "%.*s", (int)size, data);
	else
		return;
	ret->n_hosts++;
}

static void purposes_read(gnutls_x509_crt_t crt, struct pki_cert *ret)
{
	char oid[64];
	unsigned critical, is_ca = 0;
	int path_length;

	for (unsigned i = 0;; i++) {
		size_t size = sizeof(oid);

		if (gnutls_x509_crt_get_key_purpose_oid(crt, i, oid, &size,
							NULL) < 0)
			break;
		ret->server |= strcmp(oid, GNUTLS_KP_TLS_WWW_SERVER) == 0;
		ret->client |= strcmp(oid, GNUTLS_KP_TLS_WWW_CLIENT) == 0;
	}
	if (gnutls_x509_crt_get_basic_constraints(crt, &critical, &is_ca,
						  &path_length) >= 0)
		ret->authority = is_ca;
}

static void hosts_read(gnutls_x509_crt_t crt, struct pki_cert *ret)
{
	for (unsigned i = 0; ret->n_hosts < PKI_HOSTS_MAX; i++) {
		unsigned char none[1];
		size_t size = 0;

		if (gnutls_x509_crt_get_subject_alt_name(crt, i, none, &size,
							 NULL) ==
		    GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
			break;
		host_read(crt, i, ret);
	}
}

int pki_cert_read(const char *file, struct pki_cert *ret, struct error *err)
{
	auto_free char *pem = NULL;
	gnutls_x509_crt_t crt;
	size_t length, name_size = sizeof(ret->name);
	int r = file_read(AT_FDCWD, file, PEM_MAX, &pem, &length, err);

	if (r < 0)
		return r;
	r = gnutls_x509_crt_init(&crt);
	if (r < 0)
		return error_set(err, ENOMEM, "out of memory");
	r = gnutls_x509_crt_import(
		crt, &(gnutls_datum_t){(unsigned char *)pem, (unsigned)length},
		GNUTLS_X509_FMT_PEM);
	if (r < 0) {
		gnutls_x509_crt_deinit(crt);
		return error_set(err, EINVAL, "certificate '%s': %s", file,
				 gnutls_strerror(r));
	}
	*ret = (struct pki_cert){
		.from_s = gnutls_x509_crt_get_activation_time(crt),
		.end_s = gnutls_x509_crt_get_expiration_time(crt),
	};
	if (gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0,
					  0, ret->name, &name_size) < 0)
		ret->name[0] = '\0'; /* it may have none */
	hosts_read(crt, ret);
	purposes_read(crt, ret);
	gnutls_x509_crt_deinit(crt);
	return 0;
}

bool pki_cert_is_due(const struct pki_cert *cert, int64_t now_s)
{
	return cert->end_s - now_s < (cert->end_s - cert->from_s) / 3;
}

unsigned pki_cert_days(const struct pki_cert *cert)
{
	int64_t days = (cert->end_s - cert->from_s) / DAY_S;

	return days < 1              ? 1
	       : days > PKI_DAYS_MAX ? PKI_DAYS_MAX
				     : (unsigned)days;
}
