/* SPDX-License-Identifier: Apache-2.0 */
#include "target/testkit/serve_kit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/size.h"

/* ---- disks ---- */

/* A file without a name, kept to the end. */
static int memory_make(const char *size_text, char path[static PATH_MAX],
		       struct error *err)
{
	uint64_t size = 0;
	int r = size_parse(size_text, &size, err);
	int fd;

	if (r < 0)
		return r;
	fd = memfd_create("serve", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		r = error_set(err, errno, "memory: %s", strerror(errno));
		fd_close(fd);
		return r;
	}
	(void)snprintf(path, PATH_MAX, "/proc/self/fd/%d", fd);
	return 0;
}

static int disk_fill(const char *text, struct serve_disk *disk,
		     struct error *err)
{
	const char *equals = strchr(text, '=');
	struct stat st;
	int r = 0;

	if (!equals || equals - text >= SERVE_NAME_MAX ||
	    strlen(equals + 1) >= sizeof(disk->path))
		return error_set(err, EINVAL, "'%s' is not NAME=PATH", text);
	(void)snprintf(disk->name, sizeof(disk->name), "%.*s",
		       (int)(equals - text), text);
	if (strncmp(equals + 1, "ram:", 4) == 0)
		r = memory_make(equals + 5, disk->path, err);
	else
		(void)snprintf(disk->path, sizeof(disk->path), "%s",
			       equals + 1);
	if (r == 0 && stat(disk->path, &st) < 0)
		r = error_set(err, errno, "'%s': %s", disk->path,
			      strerror(errno));
	if (r == 0)
		disk->size = (uint64_t)st.st_size;
	return r;
}

int serve_disk_new(const char *text, bool direct, struct serve_disk **ret,
		   struct error *err)
{
	struct serve_disk *disk = calloc(1, sizeof(*disk));
	int r = disk ? disk_fill(text, disk, err)
		     : error_set(err, ENOMEM, "no memory");

	if (r < 0) {
		free(disk);
		return r;
	}
	disk->direct = direct;
	*ret = disk;
	return 0;
}

int serve_disk_open(void *context, struct loop *loop, bool read_only,
		    struct blockdev **ret, struct error *err)
{
	const struct serve_disk *disk = context;

	return blockdev_file_open(
		loop, disk->path, 0,
		(read_only ? BLOCKDEV_FILE_READ_ONLY : 0) |
			(disk->direct ? BLOCKDEV_FILE_DIRECT : 0),
		ret, err);
}

/* ---- listeners ---- */

int serve_listen(struct target *target, const struct option_list *addresses,
		 int (*listen)(struct target *target, const char *address,
			       int *ret_port, struct error *err),
		 struct error *err)
{
	for (size_t i = 0; i < addresses->count; i++) {
		const char *address = addresses->items[i];
		const char *colon = strrchr(address, ':');
		int port = 0, r = listen(target, address, &port, err);

		if (r < 0)
			return r;
		if (port > 0)
			printf("listening %.*s:%d\n", (int)(colon - address),
			       address, port);
		else
			printf("listening %s\n", address);
	}
	(void)fflush(stdout); /* a reader that is gone does not matter */
	return 0;
}

int serve_without(const struct option_list *names, unsigned *ret,
		  struct error *err)
{
	*ret = 0;
	for (size_t i = 0; i < names->count; i++) {
		unsigned feature = loop_feature_find(names->items[i]);

		if (!feature)
			return error_set(err, EINVAL, "no loop feature '%s'",
					 names->items[i]);
		*ret |= feature;
	}
	return 0;
}

/* ---- signals ---- */

static void signals_waited_for(sigset_t *ret)
{
	sigemptyset(ret);
	sigaddset(ret, SIGTERM);
	sigaddset(ret, SIGINT);
	sigaddset(ret, SIGHUP);
}

void serve_block_signals(void)
{
	sigset_t signals;

	signals_waited_for(&signals);
	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

static void exports_grow(struct target *target,
			 const struct option_list *exports)
{
	for (size_t i = 0; i < exports->count; i++) {
		const char *text = exports->items[i];
		const char *equals = strchr(text, '=');
		char name[SERVE_NAME_MAX];
		struct stat st;

		if (stat(equals + 1, &st) < 0) /* memory, or gone */
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)(equals - text),
			       text);
		target_export_grow(target, name, (uint64_t)st.st_size);
	}
	printf("grown\n");
	(void)fflush(stdout); /* a reader that is gone does not matter */
}

int serve_wait(struct target *target, const struct option_list *exports)
{
	sigset_t signals;
	int number = 0, r;

	signals_waited_for(&signals);
	do {
		r = -sigwait(&signals, &number);
		if (r == 0 && number == SIGHUP)
			exports_grow(target, exports);
	} while (r == 0 && number == SIGHUP);
	return r;
}

int serve_main(const struct serve_program *program, int argc, char **argv)
{
	struct error err = {0};
	int index = 0, r;

	log_setup(program->name, LOG_LEVEL_INFO);
	serve_block_signals();
	options_defaults(program->rows, program->n_rows, program->config);
	r = options_parse(program->rows, program->n_rows, program->config, argc,
			  argv, &index, &err);
	if (r == 0 && index < argc)
		r = error_set(&err, EINVAL, "what is '%s'?", argv[index]);
	if (r == 0 && *program->help)
		options_help(program->rows, program->n_rows, stdout);
	else if (r == 0)
		r = program->run(program->config, &err);
	options_done(program->rows, program->n_rows, program->config);
	if (r < 0)
		fprintf(stderr, "%s: %s\n", program->name, error_text(&err));
	return r < 0 ? 1 : 0;
}
