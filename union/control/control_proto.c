/* SPDX-License-Identifier: Apache-2.0 */
#include "union/control/control_proto.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "union/branch/branch.h"

static bool is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

bool control_request_is_whole(const char *data, size_t length)
{
	return length >= CONTROL_REQUEST_MAX || memchr(data, '\n', length);
}

/* Take the line as text, owned; or NULL and @err. */
static char *take_line(const char *data, size_t length, struct error *err)
{
	const char *end = memchr(data, '\n', length);
	char *line;
	size_t i, n = end ? (size_t)(end - data) : 0;

	if (length > CONTROL_REQUEST_MAX ||
	    (!end && length == CONTROL_REQUEST_MAX))
		(void)error_set(err, EINVAL,
				"the request is longer than %d bytes",
				CONTROL_REQUEST_MAX);
	else if (!end)
		(void)error_set(err, EINVAL,
				"the request does not end in a newline");
	else if (n + 1 != length)
		(void)error_set(err, EINVAL,
				"there is more than one line; a connection is "
				"for one request");
	else {
		for (i = 0; i < n && !is_control(data[i]); i++)
			;
		line = i == n ? strndup(data, n) : NULL;
		if (line)
			return line;
		(void)error_set(err, i == n ? ENOMEM : EINVAL, "%s",
				i == n ? strerror(ENOMEM)
				       : "the request has a control character");
	}
	return NULL;
}

/* By enum control_command; the word is followed by a space. */
static const struct {
	const char *word;
	bool plain; /* the branch has no words */
} commands[] = {
	[CONTROL_ADD] = {"add", false},  [CONTROL_REMOVE] = {"remove", true},
	[CONTROL_SET] = {"set", false},  [CONTROL_DRAIN] = {"drain", true},
	[CONTROL_STOP] = {"stop", true},
};

static bool has_words(const struct branch_spec *spec)
{
	return spec->flags || spec->min_free != BRANCH_MIN_FREE_UNION;
}

static int decode_branch(const char *text, enum control_command command,
			 struct branch_spec *ret, struct error *err)
{
	const char *word = commands[command].word;
	int r = branch_spec_parse(&text, ret, err);

	if (r == 0 && text)
		r = error_set(err, EINVAL,
			      "'%s' takes one branch; a ':' in a path is "
			      "written '\\:'",
			      word);
	if (r == 0 && ret->pattern)
		r = error_set(err, EINVAL,
			      "'%s' takes no pattern; a '*', '?' or '[' in a "
			      "path has a '\\' before it",
			      word);
	if (r == 0 && strlen(ret->path) >= PATH_MAX)
		r = error_set(err, EINVAL, "the path is longer than %d bytes",
			      PATH_MAX - 1);
	if (r == 0 && ret->flags & BRANCH_ABSENT)
		r = error_set(err, EINVAL,
			      "'%s' takes no branch that is absent: only a "
			      "mount does",
			      word);
	if (r == 0 && commands[command].plain && has_words(ret))
		r = error_set(err, EINVAL,
			      "'%s' takes the path of a branch only", word);
	return r;
}

/* Decode "RATE ". */
static int decode_rate(const char **text, uint64_t *ret, struct error *err)
{
	char *end;

	errno = 0;
	*ret = strtoull(*text, &end, 10);
	if (**text < '0' || **text > '9' || *end != ' ' || errno)
		return error_set(err, EINVAL,
				 "it is 'drain RATE BRANCH', with RATE in "
				 "bytes a second or 0");
	*text = end + 1;
	return 0;
}

/* Decode the settings, by cutting up ret->text. */
static int decode_settings(struct control_request *ret, struct error *err)
{
	char *rest = ret->text, *name, *value;
	struct setting *setting;

	while ((name = strsep(&rest, " "))) {
		value = strchr(name, '=');
		if (!value || value == name || !value[1])
			return error_set(err, EINVAL,
					 "it is 'policy NAME=VALUE ...', with "
					 "one space between each two");
		if (ret->settings_count == CONTROL_SETTINGS_MAX)
			return error_set(err, EINVAL,
					 "there are more than %d settings",
					 CONTROL_SETTINGS_MAX);
		*value++ = '\0';
		setting = &ret->settings[ret->settings_count++];
		setting->name = name;
		setting->value = value;
	}
	return 0;
}

static int decode_policy(const char *text, struct control_request *ret,
			 struct error *err)
{
	ret->command = CONTROL_POLICY;
	ret->text = strdup(text);
	return ret->text ? decode_settings(ret, err)
			 : error_set(err, ENOMEM, "%s", strerror(ENOMEM));
}

static int decode_line(const char *line, struct control_request *ret,
		       struct error *err)
{
	unsigned i;
	size_t n;
	int r = 0;

	if (strcmp(line, "status") == 0) {
		ret->command = CONTROL_STATUS;
		return 0;
	}
	if (strcmp(line, "upgrade") == 0) {
		ret->command = CONTROL_UPGRADE;
		return 0;
	}
	if (strncmp(line, "policy ", 7) == 0)
		return decode_policy(line + 7, ret, err);
	for (i = CONTROL_ADD; i < array_size(commands); i++) {
		n = strlen(commands[i].word);
		if (strncmp(line, commands[i].word, n) == 0 && line[n] == ' ')
			break;
	}
	if (i == array_size(commands))
		return error_set(
			err, EINVAL,
			"unknown command; there are 'status', 'upgrade', "
			"'policy NAME=VALUE', 'add BRANCH', 'remove BRANCH', 'set BRANCH=WORDS', "
			"'drain RATE BRANCH' and 'stop BRANCH'");
	ret->command = (enum control_command)i;
	line += n + 1;
	if (ret->command == CONTROL_DRAIN)
		r = decode_rate(&line, &ret->rate, err);
	return r < 0 ? r : decode_branch(line, ret->command, &ret->branch, err);
}

int control_request_decode(const char *data, size_t length,
			   struct control_request *ret, struct error *err)
{
	char *line = take_line(data, length, err);
	int r;

	memset(ret, 0, sizeof(*ret));
	if (!line)
		return -EINVAL;
	r = decode_line(line, ret, err);
	free(line);
	if (r < 0)
		control_request_done(ret);
	return r;
}

void control_request_done(struct control_request *request)
{
	free(request->branch.path);
	free(request->text);
	memset(request, 0, sizeof(*request));
}

static char *make_reply(const char *word, const char *text)
{
	char *line, *c;

	if (asprintf(&line, "%s %s\n", word, text) < 0)
		return NULL;
	for (c = line; c[1]; c++)
		if (is_control(*c))
			*c = '?';
	return line;
}

char *control_reply_ok(const char *json)
{
	return make_reply("ok", json);
}

char *control_reply_error(const char *text)
{
	return make_reply("error", text);
}

int control_reply_decode(char *data, size_t length, const char **ret)
{
	if (!length || memchr(data, '\n', length) != data + length - 1 ||
	    memchr(data, '\0', length))
		return -EPROTO;
	data[length - 1] = '\0';
	if (strncmp(data, "ok ", 3) == 0) {
		*ret = data + 3;
		return 0;
	}
	if (strncmp(data, "error ", 6) != 0)
		return -EPROTO;
	*ret = data + 6;
	return -EREMOTEIO;
}
