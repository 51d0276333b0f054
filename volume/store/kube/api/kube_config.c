/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "volume/record/json_scan.h"
#include "volume/store/http/base64.h"
#include "volume/store/kube/api/kube_yaml.h"

static void cleanup_secret(char **secret)
{
	http_secret_free(*secret);
}
#define auto_secret auto_cleanup(cleanup_secret)

void kube_config_done(struct kube_config *config)
{
	free(config->ca.data);
	free(config->certificate.data);
	http_secret_free(config->key.data);
	http_secret_free(config->token);
	*config = (struct kube_config){0};
}

static int set_text(char *ret, size_t size, const char *what, const char *text,
		    struct error *err)
{
	size_t length = strlen(text);

	if (length >= size)
		return error_set(err, EINVAL, "%s is longer than %zu bytes",
				 what, size - 1);
	memcpy(ret, text, length + 1);
	return 0;
}

/* A namespace is an RFC 1123 label, and part of an URL. */
static int set_namespace(struct kube_config *config, const char *text,
			 struct error *err)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");

	if (length == 0 || text[length] || text[0] == '-' ||
	    text[length - 1] == '-' || length >= sizeof(config->name_space))
		return error_set(err, EINVAL,
				 "'%.80s' is no namespace: 1 to 63 of a-z 0-9 "
				 "and '-', not first or last",
				 text);
	memcpy(config->name_space, text, length + 1);
	return 0;
}

static int set_server(struct kube_config *config, const char *url,
		      struct error *err)
{
	size_t length;
	int r = set_text(config->server, sizeof(config->server), "the server",
			 url, err);

	if (r < 0)
		return r;
	if (strncmp(url, "https://", 8) != 0 || !url[8] || strchr(url, '@') ||
	    strpbrk(url, " \t\r\n?#"))
		return error_set(err, EINVAL,
				 "the server is not 'https://HOST:PORT'");
	for (length = strlen(url); config->server[length - 1] == '/'; length--)
		config->server[length - 1] = '\0';
	return 0;
}

/* ---- in a pod ---- */

static int read_namespace(const char *directory, struct kube_config *config,
			  struct error *err)
{
	char path[PATH_MAX];
	auto_free char *text = NULL;
	size_t length;
	int r;

	(void)snprintf(path, sizeof(path), "%s/namespace", directory);
	r = file_read(AT_FDCWD, path, KUBE_NAMESPACE_SIZE, &text, &length, err);
	if (r < 0)
		return r;
	text[strcspn(text, "\r\n")] = '\0';
	return set_namespace(config, text, err);
}

int kube_config_load_pod(const char *directory, struct kube_config *ret,
			 struct error *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST");
	const char *port = getenv("KUBERNETES_SERVICE_PORT");
	struct kube_config config = {0};
	char url[KUBE_SERVER_SIZE];
	bool bare_ip6 = host && strchr(host, ':') && host[0] != '[';
	int r;

	if (!host || !host[0] || !port || !port[0])
		return error_set(err, ENOENT,
				 "not in a pod: KUBERNETES_SERVICE_HOST and "
				 "KUBERNETES_SERVICE_PORT are not set");
	if (strlen(directory) > PATH_MAX - 32)
		return error_set(err, EINVAL, "the directory is too long");
	if (snprintf(url, sizeof(url), "https://%s%s%s:%s", bare_ip6 ? "[" : "",
		     host, bare_ip6 ? "]" : "", port) >= (int)sizeof(url))
		return error_set(err, EINVAL,
				 "KUBERNETES_SERVICE_HOST is too long");
	(void)snprintf(config.ca.path, sizeof(config.ca.path), "%s/ca.crt",
		       directory);
	(void)snprintf(config.token_path, sizeof(config.token_path), "%s/token",
		       directory);
	r = set_server(&config, url, err);
	if (r == 0)
		r = read_namespace(directory, &config, err);
	if (r < 0)
		return error_prefix(err, r, "the pod's service account: ");
	*ret = config;
	return 0;
}

/* ---- a kubeconfig file ---- */

/* The item of the list @key whose name is @name; its member @inner. */
static struct json_object *named(struct json_scan *scan,
				 struct json_object *root, const char *key,
				 const char *name, const char *inner)
{
	struct json_object *array = json_scan_array(scan, root, key, 4096,
						    true);
	size_t n = array ? json_object_array_length(array) : 0;

	for (size_t i = 0; i < n && scan->r == 0; i++) {
		struct json_object *item = json_object_array_get_idx(array, i);
		struct json_object *has = NULL;

		if (json_object_is_type(item, json_type_object) &&
		    json_object_object_get_ex(item, "name", &has) && has &&
		    strcmp(json_object_get_string(has), name) == 0)
			return json_scan_object(scan, item, inner, true);
	}
	json_scan_fail(scan, key, "has no '%.60s'", name);
	return NULL;
}

static const char *member_text(struct json_scan *scan, struct json_object *in,
			       const char *key)
{
	struct json_object *found = NULL;

	if (scan->r < 0 || !in || !json_object_object_get_ex(in, key, &found) ||
	    !found)
		return NULL;
	if (!json_object_is_type(found, json_type_string)) {
		json_scan_fail(scan, key, "is no text");
		return NULL;
	}
	return json_object_get_string(found);
}

/* A file named in @file (a kubeconfig) is relative to that file's folder. */
static void config_set_path(struct json_scan *scan, const char *file,
			    const char *key, const char *text, char *ret)
{
	const char *slash = strrchr(file, '/');
	int folder = slash && text[0] != '/' ? (int)(slash - file + 1) : 0;

	if (snprintf(ret, PATH_MAX, "%.*s%s", folder, file, text) >= PATH_MAX)
		json_scan_fail(scan, key, "is too long");
}

/* KEY is a file, KEY-data its content in base64, which wins. */
static void scan_pem(struct json_scan *scan, struct json_object *in,
		     const char *file, const char *key, struct http_pem *ret)
{
	char data_key[64];
	const char *data, *path;
	size_t length = 0;

	(void)snprintf(data_key, sizeof(data_key), "%s-data", key);
	data = member_text(scan, in, data_key);
	path = member_text(scan, in, key);
	if (data) {
		ret->data = base64_decode(data, &length);
		/* Text has no NUL in it. */
		if (!ret->data || strlen(ret->data) != length)
			json_scan_fail(scan, data_key, "is no base64");
	} else if (path) {
		config_set_path(scan, file, key, path, ret->path);
	}
}

static void scan_cluster(struct json_scan *scan, struct json_object *cluster,
			 const char *file, struct kube_config *config)
{
	const char *server = member_text(scan, cluster, "server");
	struct error why = {0};

	if (json_scan_flag(scan, cluster, "insecure-skip-tls-verify"))
		json_scan_fail(scan, "insecure-skip-tls-verify",
			       "is not supported: name the server's authority "
			       "by certificate-authority");
	if (member_text(scan, cluster, "tls-server-name"))
		json_scan_fail(scan, "tls-server-name", "is not supported");
	if (!server)
		json_scan_fail(scan, "server", "is missing");
	else if (set_server(config, server, &why) < 0)
		json_scan_fail(scan, "server", "is bad: %s", why.msg);
	scan_pem(scan, cluster, file, "certificate-authority", &config->ca);
}

static bool pem_given(const struct http_pem *pem)
{
	return pem->data || pem->path[0];
}

static void scan_user(struct json_scan *scan, struct json_object *user,
		      const char *file, struct kube_config *config)
{
	static const char *const unknown[] = {"exec", "auth-provider",
					      "username", "password", "as"};
	const char *token = member_text(scan, user, "token");
	const char *token_file = member_text(scan, user, "tokenFile");
	struct json_object *found = NULL;

	for (size_t i = 0; user && i < array_size(unknown); i++) {
		if (json_object_object_get_ex(user, unknown[i], &found))
			json_scan_fail(scan, unknown[i],
				       "is not supported: use a token, a "
				       "tokenFile or a client certificate");
	}
	scan_pem(scan, user, file, "client-certificate", &config->certificate);
	scan_pem(scan, user, file, "client-key", &config->key);
	if (pem_given(&config->certificate) != pem_given(&config->key))
		json_scan_fail(scan, "client-certificate",
			       "and client-key go together");
	if (token_file)
		config_set_path(scan, file, "tokenFile", token_file,
				config->token_path);
	else if (token && strlen(token) > KUBE_TOKEN_MAX)
		json_scan_fail(scan, "token", "is too long");
	else if (token && !(config->token = strdup(token)))
		scan->r = error_set(scan->err, ENOMEM, "out of memory");
}

static void scan_kubeconfig(struct json_scan *scan, struct json_object *root,
			    const char *file, const char *context,
			    struct kube_config *config)
{
	struct json_object *object;
	const char *cluster, *user, *name_space;
	struct error why = {0};

	if (!context)
		context = member_text(scan, root, "current-context");
	if (!context || !context[0]) {
		json_scan_fail(scan, "current-context", "is missing");
		return;
	}
	object = named(scan, root, "contexts", context, "context");
	cluster = member_text(scan, object, "cluster");
	user = member_text(scan, object, "user");
	name_space = member_text(scan, object, "namespace");
	if (!cluster || !user) {
		json_scan_fail(scan, "contexts", "lacks a cluster or a user");
		return;
	}
	if (set_namespace(config, name_space ? name_space : "default", &why) <
	    0)
		json_scan_fail(scan, "namespace", "is bad: %s", why.msg);
	object = named(scan, root, "clusters", cluster, "cluster");
	json_scan_at(scan, "cluster '%.60s'", cluster);
	scan_cluster(scan, object, file, config);
	scan->path[0] = '\0';
	object = named(scan, root, "users", user, "user");
	json_scan_at(scan, "user '%.60s'", user);
	scan_user(scan, object, file, config);
}

int kube_config_load_file(const char *path, const char *context,
			  struct kube_config *ret, struct error *err)
{
	struct json_scan scan = {.err = err};
	struct kube_config config = {0};
	struct json_object *root = NULL;
	auto_secret char *text = NULL;
	size_t length;
	int r = file_read(AT_FDCWD, path, KUBE_FILE_MAX, &text, &length, err);

	if (r < 0)
		return error_prefix(err, r, "kubeconfig: ");
	r = kube_yaml_parse(text, length, &root, err);
	if (r == 0) {
		scan_kubeconfig(&scan, root, path, context, &config);
		r = scan.r;
	}
	json_object_put(root);
	if (r < 0) {
		kube_config_done(&config);
		return error_prefix(err, r, "kubeconfig '%s': ", path);
	}
	*ret = config;
	return 0;
}

/* ---- whichever there is ---- */

static int load_default(const char *context, struct kube_config *ret,
			struct error *err)
{
	const char *file = getenv("KUBECONFIG"), *home = getenv("HOME");
	char path[PATH_MAX];

	if (getenv("KUBERNETES_SERVICE_HOST") && !context)
		return kube_config_load_pod(KUBE_POD_DIRECTORY, ret, err);
	if (file && file[0])
		return kube_config_load_file(file, context, ret, err);
	if (home &&
	    snprintf(path, sizeof(path), "%s/.kube/config", home) <
		    (int)sizeof(path) &&
	    access(path, F_OK) == 0)
		return kube_config_load_file(path, context, ret, err);
	return error_set(err, ENOENT,
			 "no Kubernetes cluster is configured: run in a pod, "
			 "set KUBECONFIG, or write "
			 "'kube:NAMESPACE,kubeconfig=PATH'");
}

int kube_config_load(const char *location, struct kube_config *ret,
		     struct error *err)
{
	const char *name_space, *file = NULL, *context = NULL;
	auto_free char *copy = strdup(location);
	char *rest = copy, *word;
	int r;

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	name_space = strsep(&rest, ",");
	while ((word = strsep(&rest, ","))) {
		if (strncmp(word, "kubeconfig=", 11) == 0 && word[11])
			file = word + 11;
		else if (strncmp(word, "context=", 8) == 0 && word[8])
			context = word + 8;
		else
			return error_set(err, EINVAL,
					 "store 'kube:%s': '%s' is not known; "
					 "write kube:[NAMESPACE]"
					 "[,kubeconfig=PATH][,context=NAME]",
					 location, word);
	}
	r = file ? kube_config_load_file(file, context, ret, err)
		 : load_default(context, ret, err);
	if (r == 0 && name_space[0])
		r = set_namespace(ret, name_space, err);
	return r;
}

int kube_config_token(const struct kube_config *config, char **ret,
		      struct error *err)
{
	auto_secret char *text = NULL;
	size_t length;
	int r;

	*ret = NULL;
	if (config->token_path[0]) {
		r = file_read(AT_FDCWD, config->token_path, KUBE_TOKEN_MAX,
			      &text, &length, err);
		if (r < 0)
			return error_prefix(err, r, "the token: ");
		text[strcspn(text, "\r\n")] = '\0';
	} else if (config->token) {
		text = strdup(config->token);
		if (!text)
			return error_set(err, ENOMEM, "out of memory");
	} else {
		return 0;
	}
	/* The token becomes a line of a header. RFC 6750 2.1, b64token. */
	length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			      "abcdefghijklmnopqrstuvwxyz0123456789-._~+/=");
	if (length == 0 || text[length])
		return error_set(err, EINVAL,
				 "the token is empty or has characters that a "
				 "token cannot have");
	*ret = take_ptr(text);
	return 0;
}
