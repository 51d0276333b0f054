/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/iscsi/iscsi_record.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define VALUE_MAX                                                  \
	255 /* bytes; AUTH_STR_MAX_LEN of open-iscsi, less the NUL \
	     */

/*
 * Folders where open-iscsi keeps records, as it was built: Debian, SUSE; Red
 * Hat.
 */
static const char *const homes[] = {"/etc/iscsi", "/var/lib/iscsi"};

/* ---- text ---- */

/* open-iscsi takes off white space around a value, and leaves out comments. */
static int check_setting(const struct iscsi_setting *s, struct error *err)
{
	size_t length = strlen(s->value);

	if (length > VALUE_MAX)
		return error_set(err, EINVAL,
				 "%s: open-iscsi takes %d bytes at most",
				 s->key, VALUE_MAX);
	if (length && (isspace((unsigned char)s->value[0]) ||
		       isspace((unsigned char)s->value[length - 1])))
		return error_set(err, EINVAL,
				 "%s: open-iscsi takes no white space at the "
				 "ends of a value",
				 s->key);
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)s->value[i] < 0x20)
			return error_set(err, EINVAL,
					 "%s: open-iscsi takes no control "
					 "characters in a value",
					 s->key);
	return 0;
}

/* Is the line, @length bytes, "@key = ..."? */
static bool line_is(const char *line, size_t length, const char *key)
{
	size_t n = strlen(key);

	if (length <= n || memcmp(line, key, n) != 0)
		return false;
	while (n < length && (line[n] == ' ' || line[n] == '\t'))
		n++;
	return n < length && line[n] == '=';
}

static bool is_replaced(const char *line, size_t length,
			const struct iscsi_setting *settings, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (line_is(line, length, settings[i].key))
			return true;
	return false;
}

int iscsi_record_edit(const char *text, const struct iscsi_setting *settings,
		      size_t n, char **ret, struct error *err)
{
	size_t room = strlen(text) + 1, at = 0;
	bool ended = false;
	char *edited;

	for (size_t i = 0; i < n; i++) {
		int r = check_setting(&settings[i], err);

		if (r < 0)
			return r;
		room += strlen(settings[i].key) + strlen(settings[i].value) + 4;
	}
	edited = malloc(room); /* no stream: it would leave copies behind */
	if (!edited)
		return error_set(err, ENOMEM, "no memory for a node record");
	while (*text && !ended) {
		size_t length = strcspn(text, "\n");

		length += text[length] == '\n';
		ended = !strncmp(text, ISCSI_RECORD_END,
				 strlen(ISCSI_RECORD_END));
		for (size_t i = 0; ended && i < n; i++)
			if (settings[i].value[0])
				at += (size_t)sprintf(edited + at, "%s = %s\n",
						      settings[i].key,
						      settings[i].value);
		if (!is_replaced(text, length, settings, n)) {
			memcpy(edited + at, text, length);
			at += length;
		}
		text += length;
	}
	edited[at] = '\0';
	if (!ended) {
		explicit_bzero(edited, at);
		free(edited);
		return error_set(err, EINVAL,
				 "a node record does not end in '%s'",
				 ISCSI_RECORD_END);
	}
	*ret = edited;
	return 0;
}

/* ---- file ---- */

/*
 * Make the path of a record. "[fd00::1]:3260" is "fd00::1,3260" in the name of
 * a folder.
 */
static int record_path(const char *home, const char *portal, const char *target,
		       const char *iface, char ret[static PATH_MAX])
{
	const char *colon = strrchr(portal, ':');
	int length = colon ? (int)(colon - portal) : 0;
	int n;

	if (length > 2 && portal[0] == '[' && portal[length - 1] == ']') {
		portal++;
		length -= 2;
	}
	if (length < 1)
		return -EINVAL;
	n = snprintf(ret, PATH_MAX, "%s/nodes/%s/%.*s,%s,1/%s", home, target,
		     length, portal, colon + 1, iface);
	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int record_find(const char *portal, const char *target,
		       const char *iface, char ret[static PATH_MAX],
		       struct error *err)
{
	for (size_t i = 0; i < array_size(homes); i++) {
		int r = record_path(homes[i], portal, target, iface, ret);

		if (r < 0)
			return error_set(err, -r, "'%s' is no HOST:PORT",
					 portal);
		if (!access(ret, F_OK))
			return 0;
	}
	return error_set(err, ENOENT,
			 "iscsiadm made a node record, but not below %s or %s",
			 homes[0], homes[1]);
}

int iscsi_record_has_iface(const char *iface)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < array_size(homes); i++) {
		(void)snprintf(path, sizeof(path), "%s/ifaces/%s", homes[i],
			       iface);
		if (!access(path, F_OK))
			return 1;
	}
	return 0;
}

#define SETTINGS_MAX 24

static size_t fill(const struct iscsi_record_options *o, char *timeout,
		   struct iscsi_setting *s)
{
	const struct chap_secrets *secrets = o->secrets;
	/*
	 * A failed login is tried again for retries times the timeout: a server
	 * that is not there is reported after 10 s. A lost session is tried
	 * again for ever; its I/O waits for the replacement timeout. A silent
	 * server is found by pings, as fast as by NBD.
	 */
	const struct iscsi_setting common[] = {
		{"node.startup", "manual"},
		{"node.conn[0].startup", "manual"},
		{"node.session.timeo.replacement_timeout", timeout},
		{"node.session.initial_login_retry_max", "1"},
		{"node.conn[0].timeo.login_timeout", "10"},
		{"node.conn[0].timeo.logout_timeout", "10"},
		{"node.conn[0].timeo.noop_out_interval", "5"},
		{"node.conn[0].timeo.noop_out_timeout", "10"},
		{"node.conn[0].iscsi.HeaderDigest", "CRC32C"},
		{"node.conn[0].iscsi.DataDigest", "CRC32C"},
		{"node.session.scan", "auto"},
		{"node.session.nr_sessions", "1"},
		{"node.session.auth.authmethod", secrets ? "CHAP" : "None"},
		{"node.session.auth.username", secrets ? secrets->user : ""},
		{"node.session.auth.password", secrets ? secrets->secret : ""},
		{"node.session.auth.username_in",
		 secrets ? secrets->mutual_user : ""},
		{"node.session.auth.password_in",
		 secrets ? secrets->mutual_secret : ""},
		{"node.session.auth.chap_algs",
		 secrets ? "SHA256,SHA1,MD5" : ""},
	};

	static_assert(array_size(common) <= SETTINGS_MAX, "room");
	(void)sprintf(timeout, "%u", o->dead_timeout_s ? o->dead_timeout_s : 1);
	memcpy(s, common, sizeof(common));
	return array_size(common);
}

static int rewrite(const char *path, const struct iscsi_setting *settings,
		   size_t n, struct error *err)
{
	auto_free char *text = NULL;
	size_t length;
	char *edited = NULL;
	int r = file_read(AT_FDCWD, path, ISCSI_RECORD_SIZE_MAX, &text, &length,
			  err);

	if (!r)
		r = iscsi_record_edit(text, settings, n, &edited, err);
	if (!r)
		r = file_replace(AT_FDCWD, path, edited, strlen(edited), 0600,
				 err);
	if (edited)
		explicit_bzero(edited, strlen(edited));
	free(edited);
	return r;
}

int iscsi_record_write(const char *portal, const char *target,
		       const char *iface,
		       const struct iscsi_record_options *options,
		       struct error *err)
{
	struct iscsi_setting settings[SETTINGS_MAX];
	char path[PATH_MAX], timeout[16];
	size_t n = fill(options, timeout, settings);
	int r = record_find(portal, target, iface, path, err);

	return r < 0 ? r : rewrite(path, settings, n, err);
}
