/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/etcd/etcd_config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define PREFIX_DEFAULT "/tributary"

void etcd_config_done(struct etcd_config *config)
{
	for (size_t i = 0; i < config->n_endpoints; i++)
		free(config->endpoints[i]);
	*config = (struct etcd_config){0};
}

static int set_prefix(struct etcd_config *config, const char *text,
		      struct error *err)
{
	size_t length;

	if (!text[0])
		text = PREFIX_DEFAULT;
	length = strspn(text, "abcdefghijklmnopqrstuvwxyz"
			      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.");
	if (text[length] || text[0] != '/' || length < 2 ||
	    text[length - 1] == '/' || length >= sizeof(config->prefix))
		return error_set(err, EINVAL,
				 "'%.80s' is no prefix: '/' and 1 to %d of "
				 "letters, digits and /-_., no '/' at its end",
				 text, ETCD_PREFIX_SIZE - 2);
	memcpy(config->prefix, text, length + 1);
	return 0;
}

/* http://127.N.N.N:PORT and the like: no name begins so. */
static bool is_loopback(const char *url)
{
	const char *host = url + strlen("http://");

	return (strncmp(host, "127.", 4) == 0 &&
		host[strspn(host, "0123456789.")] == ':') ||
	       strncmp(host, "[::1]:", 6) == 0 ||
	       strncmp(host, "localhost:", 10) == 0;
}

static int add_endpoint(struct etcd_config *config, const char *url,
			struct error *err)
{
	const char *host = strstr(url, "://");
	size_t length = strlen(url);
	char *copy;

	if ((strncmp(url, "https://", 8) != 0 &&
	     strncmp(url, "http://", 7) != 0) ||
	    !host[3] || strpbrk(host + 3, "/@ \t\r\n?#"))
		return error_set(err, EINVAL,
				 "'%.80s' is no endpoint: https://HOST:PORT, "
				 "or http://HOST:PORT",
				 url);
	if (config->n_endpoints == ETCD_ENDPOINTS_MAX)
		return error_set(err, EINVAL, "more than %d endpoints",
				 ETCD_ENDPOINTS_MAX);
	copy = strndup(url, length);
	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	config->endpoints[config->n_endpoints++] = copy;
	return 0;
}

static int set_word(char *ret, size_t size, const char *value,
		    struct error *err)
{
	if (!value[0] || strlen(value) >= size)
		return error_set(err, EINVAL, "a value has 1 to %zu bytes",
				 size - 1);
	memcpy(ret, value, strlen(value) + 1);
	return 0;
}

static int config_word(struct etcd_config *config, const char *word,
		       struct error *err)
{
	const struct {
		const char *name;
		char *ret;
		size_t size;
	} words[] = {
		{"ca", config->ca.path, PATH_MAX},
		{"cert", config->certificate.path, PATH_MAX},
		{"key", config->key.path, PATH_MAX},
		{"user", config->user, ETCD_USER_SIZE},
		{"password-file", config->password_path, PATH_MAX},
	};
	size_t length = strcspn(word, "=");

	if (strncmp(word, "endpoint=", 9) == 0)
		return add_endpoint(config, word + 9, err);
	for (size_t i = 0; word[length] && i < array_size(words); i++) {
		if (strlen(words[i].name) == length &&
		    strncmp(words[i].name, word, length) == 0)
			return set_word(words[i].ret, words[i].size,
					word + length + 1, err);
	}
	/* Its value may be a password. */
	return error_set(err, EINVAL,
			 "'%.*s' is not known; write etcd:[PREFIX],"
			 "endpoint=URL[,endpoint=URL]...[,ca=PATH]"
			 "[,cert=PATH,key=PATH][,user=NAME,password-file=PATH]",
			 (int)(length < 40 ? length : 40), word);
}

static int config_check(const struct etcd_config *config, struct error *err)
{
	if (config->n_endpoints == 0)
		return error_set(err, EINVAL, "no endpoint=URL");
	if (!config->certificate.path[0] != !config->key.path[0])
		return error_set(err, EINVAL, "cert= and key= go together");
	if (!config->user[0] != !config->password_path[0])
		return error_set(err, EINVAL,
				 "user= and password-file= go together");
	for (size_t i = 0; config->user[0] && i < config->n_endpoints; i++) {
		if (strncmp(config->endpoints[i], "https://", 8) != 0 &&
		    !is_loopback(config->endpoints[i]))
			return error_set(err, EINVAL,
					 "a password is not sent to '%.80s' in "
					 "plain text: use https://",
					 config->endpoints[i]);
	}
	return 0;
}

int etcd_config_parse(const char *location, struct etcd_config *ret,
		      struct error *err)
{
	struct etcd_config config = {0};
	auto_free char *copy = strdup(location);
	char *rest = copy, *word;
	int r;

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	r = set_prefix(&config, strsep(&rest, ","), err);
	while (r == 0 && (word = strsep(&rest, ",")))
		r = config_word(&config, word, err);
	if (r == 0)
		r = config_check(&config, err);
	if (r < 0) {
		etcd_config_done(&config);
		return error_prefix(err, r, "store 'etcd:': ");
	}
	*ret = config;
	return 0;
}
