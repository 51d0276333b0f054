/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/chap_secrets.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

static int chap_value_set(char *to, size_t size, const char *value, bool *seen,
			  struct error *err)
{
	if (*seen)
		return error_set(err, EINVAL, "is there twice");
	if (value[0] == '\0' || strlen(value) >= size)
		return error_set(err, EINVAL, "a value has 1 to %zu bytes",
				 size - 1);
	*seen = true;
	(void)snprintf(to, size, "%s", value);
	return 0;
}

/* One line without its end; changed. No error says what is in it. */
static int line_take(struct chap_secrets *secrets, bool seen[static 4],
		     char *line, struct error *err)
{
	char *value = line + strcspn(line, " \t");

	if (line[0] == '\0' || line[0] == '#')
		return 0;
	if (*value != '\0')
		*value++ = '\0';
	if (strcmp(line, "user") == 0)
		return chap_value_set(secrets->user, sizeof(secrets->user),
				      value, &seen[0], err);
	if (strcmp(line, "secret") == 0)
		return chap_value_set(secrets->secret, sizeof(secrets->secret),
				      value, &seen[1], err);
	if (strcmp(line, "mutual-user") == 0)
		return chap_value_set(secrets->mutual_user,
				      sizeof(secrets->mutual_user), value,
				      &seen[2], err);
	if (strcmp(line, "mutual-secret") == 0)
		return chap_value_set(secrets->mutual_secret,
				      sizeof(secrets->mutual_secret), value,
				      &seen[3], err);
	return error_set(err, EINVAL,
			 "begins with none of user, secret, mutual-user, "
			 "mutual-secret");
}

static int lines_read(FILE *file, struct chap_secrets *secrets,
		      struct error *err)
{
	char line[512];
	bool seen[4] = {false};
	int r = 0;

	for (unsigned n = 1; r == 0 && fgets(line, sizeof(line), file); n++) {
		size_t length = strcspn(line, "\r\n");

		if (line[length] == '\0' && !feof(file))
			r = error_set(err, EINVAL, "is too long");
		line[length] = '\0';
		if (r == 0)
			r = line_take(secrets, seen, line, err);
		if (r < 0)
			r = error_prefix(err, r, "line %u: ", n);
	}
	if (r == 0 && ferror(file))
		r = error_set(err, EIO, "can't be read");
	explicit_bzero(line, sizeof(line));
	return r;
}

int chap_secrets_load(const char *path, struct chap_secrets *ret,
		      struct error *err)
{
	struct chap_secrets secrets = {.user = ""};
	auto_fclose FILE *file = fopen(path, "re");
	struct stat st;
	int r;

	if (!file || fstat(fileno(file), &st) < 0)
		return error_set(err, errno, "CHAP secrets '%s': %s", path,
				 strerror(errno));
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return error_set(err, EPERM,
				 "CHAP secrets '%s': others may read it; "
				 "make it 0600",
				 path);
	r = lines_read(file, &secrets, err);
	if (r == 0)
		r = chap_secrets_check(&secrets, err);
	if (r == 0)
		*ret = secrets;
	else
		r = error_prefix(err, r, "CHAP secrets '%s': ", path);
	explicit_bzero(&secrets, sizeof(secrets));
	return r;
}

static int secret_check(const char *user, const char *secret, const char *what,
			struct error *err)
{
	if ((user[0] == '\0') != (secret[0] == '\0'))
		return error_set(err, EINVAL,
				 "%s: user and secret come together", what);
	if (secret[0] != '\0' && strlen(secret) < CHAP_SECRET_MIN)
		return error_set(err, EINVAL,
				 "%s: a secret has at least %d bytes", what,
				 CHAP_SECRET_MIN);
	return 0;
}

int chap_secrets_check(const struct chap_secrets *secrets, struct error *err)
{
	int r = secret_check(secrets->user, secrets->secret, "the initiator's",
			     err);

	if (r == 0)
		r = secret_check(secrets->mutual_user, secrets->mutual_secret,
				 "the target's", err);
	if (r < 0)
		return r;
	if (secrets->mutual_user[0] != '\0' && secrets->user[0] == '\0')
		return error_set(err, EINVAL,
				 "only the initiator can ask the target to "
				 "prove itself: it needs a user, too");
	if (secrets->secret[0] != '\0' &&
	    strcmp(secrets->secret, secrets->mutual_secret) == 0)
		return error_set(err, EINVAL,
				 "the secrets of both ways must differ");
	return 0;
}
