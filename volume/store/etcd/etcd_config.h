/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The members of an etcd cluster and our identity there. A location is
 *
 *	[PREFIX],endpoint=URL[,endpoint=URL]...[,ca=PATH][,cert=PATH,key=PATH]
 *	[,user=NAME,password-file=PATH]
 *
 * PREFIX is "/tributary" when it is empty. Files are read when they are needed,
 * so renewed ones are used at once.
 */
#ifndef VOLUME_ETCD_CONFIG_H
#define VOLUME_ETCD_CONFIG_H

#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "volume/store/http/http_client.h"

#define ETCD_ENDPOINTS_MAX 16
#define ETCD_PREFIX_SIZE   129  /* bytes with NUL */
#define ETCD_USER_SIZE     129  /* bytes with NUL */
#define ETCD_PASSWORD_MAX  1024 /* bytes of the file */

struct etcd_config {
	char prefix[ETCD_PREFIX_SIZE];       /* "/tributary", no last '/' */
	char *endpoints[ETCD_ENDPOINTS_MAX]; /* owned; no last '/' */
	size_t n_endpoints;
	struct http_pem ca; /* none: the system's */
	struct http_pem certificate, key;
	char user[ETCD_USER_SIZE]; /* "": none */
	char password_path[PATH_MAX];
};

/* -EINVAL: the text says which word is wrong. */
int etcd_config_parse(const char *location, struct etcd_config *ret,
		      struct error *err);
void etcd_config_done(struct etcd_config *config);

#endif
