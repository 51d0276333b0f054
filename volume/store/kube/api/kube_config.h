/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of the Kubernetes API server and our identity there: from the pod
 * we run in, or from a kubeconfig file.
 *
 * A location is "[NAMESPACE][,kubeconfig=PATH][,context=NAME]". The first of
 * these that is there is used:
 *
 *	the file named by kubeconfig=
 *	the pod's service account, when KUBERNETES_SERVICE_HOST is set
 *	the file named by $KUBECONFIG (one file)
 *	$HOME/.kube/config
 *
 * The namespace is the one named, else the pod's or the context's own, else
 * "default". A kubeconfig may hold a token, a tokenFile or a client certificate
 * with its key. Exec plugins, passwords and connections without a check of the
 * server's certificate are refused.
 */
#ifndef VOLUME_KUBE_CONFIG_H
#define VOLUME_KUBE_CONFIG_H

#include <limits.h>
#include <stddef.h>

#include "base/error.h"
#include "volume/store/http/http_client.h"

#define KUBE_SERVER_SIZE    512         /* bytes with NUL, an URL */
#define KUBE_NAMESPACE_SIZE 64          /* bytes with NUL; RFC 1123 label */
#define KUBE_FILE_MAX       (1u << 20)  /* bytes of a file read here */
#define KUBE_TOKEN_MAX      (16u << 10) /* bytes; a bound token has 1 KiB */

#define KUBE_POD_DIRECTORY "/var/run/secrets/kubernetes.io/serviceaccount"

struct kube_config {
	char server[KUBE_SERVER_SIZE]; /* "https://HOST:PORT/..", no last '/' */
	char name_space[KUBE_NAMESPACE_SIZE];
	struct http_pem ca; /* none: the system's */
	struct http_pem certificate;
	struct http_pem key;       /* secret */
	char *token;               /* secret; owned; NULL: none */
	char token_path[PATH_MAX]; /* "": none; it changes, so it is re-read */
};

/*
 * Load the configuration of @location. -ENOENT: no configuration. -EINVAL: the
 * text says what is wrong in which file.
 */
int kube_config_load(const char *location, struct kube_config *ret,
		     struct error *err);
/* Of a pod whose service account is in @directory. */
int kube_config_load_pod(const char *directory, struct kube_config *ret,
			 struct error *err);
/* @context NULL: the current one. */
int kube_config_load_file(const char *path, const char *context,
			  struct kube_config *ret, struct error *err);

/*
 * The token to send now, returned owned (wipe it by http_secret_free());
 * NULL when there is none.
 */
int kube_config_token(const struct kube_config *config, char **ret,
		      struct error *err);

void kube_config_done(struct kube_config *config);

#endif
