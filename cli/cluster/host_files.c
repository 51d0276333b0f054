/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/host_files.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "base/uuid_name.h"

#define FILE_MAX    (1u << 20) /* bytes */
#define CONTROL     "unix:/run/tributary/blockd.sock"
#define SYSTEMCTL_S 60 /* blockd reads its pools before it is ready */

/* ---- what is given ---- */

/* A pool's directory, after "NAME="; NULL: it is none. */
static const char *pool_directory(const char *pool, char *ret_name, size_t size)
{
	const char *equals = strchr(pool, '=');

	if (!equals || equals[1] != '/' || (size_t)(equals - pool) >= size)
		return NULL;
	memcpy(ret_name, pool, (size_t)(equals - pool));
	ret_name[equals - pool] = '\0';
	return equals + 1;
}

static int pool_check(const char *pool, struct error *err)
{
	char name[NAME_TEXT_MAX];
	const char *dir = pool_directory(pool, name, sizeof(name));
	struct stat st;
	int r;

	if (!dir)
		return error_set(err, EINVAL,
				 "pool '%s': write NAME=/ABSOLUTE/DIRECTORY",
				 pool);
	r = name_check("pool", name, err);
	if (r == 0 && stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
		r = error_set(err, ENOTDIR,
			      "pool '%s': no directory; make a pool of a "
			      "device by `trib pool create` when blockd runs",
			      name);
	return r;
}

/* One line, so that it can stand in a file of settings. */
static int line_check(const char *what, const char *text, struct error *err)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return error_set(err, EINVAL, "%s: a control character",
					 what);
	return text[0] ? 0 : error_set(err, EINVAL, "%s is empty", what);
}

/* Both systemd and a shell split node.env's words. */
static int label_check(const char *label, struct error *err)
{
	if (strpbrk(label, " \t\n\"'\\$`;&|<>()*?#"))
		return error_set(err, EINVAL,
				 "label '%.64s': neither spaces nor quotes nor "
				 "signs of a shell",
				 label);
	return line_check("a label", label, err);
}

/* A DNS name or an address: what a certificate and an address can have. */
static int host_check(const char *host, struct error *err)
{
	static const char fine[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789.-";
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET6, host, address) == 1)
		return 0;
	if (host[0] && strspn(host, fine) == strlen(host) &&
	    strlen(host) < PKI_HOST_SIZE)
		return 0;
	return error_set(err, EINVAL,
			 "'%.64s' is no address and no host name (without a "
			 "port)",
			 host);
}

int host_settings_check(const struct host_settings *host, struct error *err)
{
	int r = name_check("node", host->node, err);

	if (r == 0)
		r = host_check(host->host, err);
	if (r == 0)
		r = line_check("the store", host->store, err);
	for (size_t i = 0; r == 0 && i < host->pools->count; i++)
		r = pool_check(host->pools->items[i], err);
	for (size_t i = 0; r == 0 && i < host->labels->count; i++)
		r = label_check(host->labels->items[i], err);
	return r;
}

/* ---- texts ---- */

/* A text that grows; NULL after it ran out of memory. */
__attribute__((format(printf, 2, 3))) static void text_add(FILE *out,
							   const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vfprintf(out, fmt, ap);
	va_end(ap);
}

/* "10.0.0.1:10809", "[fe80::1]:10809" */
static void address_add(FILE *out, const char *host, int port)
{
	bool v6 = strchr(host, ':') != NULL;

	text_add(out, "%s%s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

static void tls_add(FILE *out, const struct host_settings *host,
		    const char *before, const char *between, const char *after)
{
	static const struct {
		const char *name, *file;
	} files[] = {
		{"tls-ca", PKI_AUTHORITY_CERT},
		{"tls-cert", PKI_CERT},
		{"tls-key", PKI_KEY},
	};

	for (size_t i = 0; i < array_size(files); i++)
		text_add(out, "%s%s%s%s/tls/%s%s", before, files[i].name,
			 between, host->etc, files[i].file, after);
}

static void trib_add(FILE *out, const struct host_settings *host)
{
	text_add(out, "store = %s\nnode = %s\n", host->store, host->node);
}

static void blockd_add(FILE *out, const struct host_settings *host)
{
	text_add(out, "node-name = %s\ncontrol = " CONTROL "\ncontrol = tcp:",
		 host->node);
	address_add(out, host->host, HOST_CONTROL_PORT);
	text_add(out, "\n");
	tls_add(out, host, "", " = ", "\n");
	text_add(out, "listen = tcp:");
	address_add(out, host->host, HOST_NBD_PORT);
	text_add(out, "\n");
	for (size_t i = 0; i < host->pools->count; i++)
		text_add(out, "pool = %s\n", host->pools->items[i]);
}

static void options_add(FILE *out, const struct host_settings *host)
{
	text_add(out,
		 "--name %s --control " CONTROL " --advertise-control tcp:",
		 host->node);
	address_add(out, host->host, HOST_CONTROL_PORT);
	text_add(out, " --data ");
	address_add(out, host->host, HOST_NBD_PORT);
	tls_add(out, host, " --", " ", "");
	for (size_t i = 0; i < host->labels->count; i++)
		text_add(out, " --labels %s", host->labels->items[i]);
}

static void env_add(FILE *out, const struct host_settings *host)
{
	text_add(out, "TRIB_NODE_OPTIONS=");
	options_add(out, host);
	text_add(out, "\n");
}

typedef void (*text_of)(FILE *out, const struct host_settings *host);

/* Returned owned; NULL: no memory. */
static char *text_make(text_of add, const struct host_settings *host)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	add(out, host);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

char *host_node_options(const struct host_settings *host)
{
	return text_make(options_add, host);
}

/* ---- files ---- */

/* In the order in which they are written: trib.conf says that all are there. */
static const struct {
	const char *name;
	text_of add;
} files[] = {
	{"blockd.conf", blockd_add},
	{"node.env", env_add},
	{"trib.conf", trib_add},
};

#define TRIB_CONF (array_size(files) - 1)

enum file_state {
	FILE_MISSING,
	FILE_SAME,
	FILE_OTHER,
};

static enum file_state file_compare(int dirfd, const char *name,
				    const char *text)
{
	auto_free char *now = NULL;
	size_t length;
	int r = file_read(dirfd, name, FILE_MAX, &now, &length, NULL);

	if (r == -ENOENT)
		return FILE_MISSING;
	return r == 0 && strcmp(now, text) == 0 ? FILE_SAME : FILE_OTHER;
}

static int file_write(const struct host_settings *host, int dirfd, size_t i,
		      bool keep, bool force, struct error *err)
{
	auto_free char *text = text_make(files[i].add, host);
	enum file_state state;

	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	state = file_compare(dirfd, files[i].name, text);
	if (state == FILE_SAME || (state == FILE_OTHER && keep && !force))
		return 0;
	if (state == FILE_OTHER && !force)
		return error_set(err, EEXIST,
				 "'%s/%s' is there, with another "
				 "configuration; --force replaces it",
				 host->etc, files[i].name);
	return file_replace(dirfd, files[i].name, text, strlen(text), 0600,
			    err);
}

static bool is_host_already(const struct host_settings *host, int dirfd)
{
	auto_free char *text = text_make(files[TRIB_CONF].add, host);

	return text &&
	       file_compare(dirfd, files[TRIB_CONF].name, text) == FILE_SAME;
}

static int pools_make(const struct host_settings *host, struct error *err)
{
	char name[NAME_TEXT_MAX];
	int r = 0;

	for (size_t i = 0; r == 0 && i < host->pools->count; i++)
		r = dir_make(pool_directory(host->pools->items[i], name,
					    sizeof(name)),
			     0700, err);
	return r;
}

int host_files_write(const struct host_settings *host, bool force,
		     bool *ret_was, struct error *err)
{
	int r = dir_make(host->etc, 0755, err);
	auto_close int fd = -1;

	if (r == 0)
		r = pools_make(host, err);
	if (r < 0)
		return r;
	fd = open(host->etc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "'%s': %s", host->etc,
				 strerror(errno));
	*ret_was = is_host_already(host, fd);
	for (size_t i = 0; r == 0 && i < array_size(files); i++)
		r = file_write(host, fd, i, *ret_was, force, err);
	return r;
}

/* ---- services ---- */

int host_services_start(bool *ret_has, struct error *err)
{
	static const char *const reload[] = {"systemctl", "daemon-reload",
					     NULL};
	static const char *const start[] = {"systemctl",      "enable",
					    "--now",          "blockd",
					    "tributary-node", NULL};
	int r;

	/* sd_booted(3) looks for the same. */
	*ret_has = access("/run/systemd/system", F_OK) == 0;
	if (!*ret_has)
		return 0;
	r = process_must(reload, SYSTEMCTL_S * 1000, err);
	return r < 0 ? r : process_must(start, SYSTEMCTL_S * 1000, err);
}
