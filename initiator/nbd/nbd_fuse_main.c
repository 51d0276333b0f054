/* SPDX-License-Identifier: Apache-2.0 */
/* trib-nbd: NBD exports as a file, by FUSE, and as a block device, by ublk. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/kernel/oom.h"
#include "base/log.h"
#include "base/options.h"
#include "initiator/nbd/nbd_fuse.h"
#include "initiator/nbd/nbd_fuse_memory.h"
#include "initiator/nbd/nbd_program.h"
#include "initiator/nbd/nbd_stored.h"
#include "initiator/nbd/nbd_survive.h"
#include "initiator/nbd/nbd_ublk.h"

#define HANDSHAKE_TIMEOUT_MS 10000
#define HEAP_START           (1 << 20) /* bytes; hundreds of requests */

struct config {
	char *address;
	char *export_name;
	char *parts_file;
	char *mount_point;
	char *name;
	char *ublk;
	uint64_t size;
	uint64_t dead_timeout_ms;
	uint64_t control_fd;
	uint64_t stored_fd;
	bool read_only;
	bool help;
	bool version;
};

static const struct option_row rows[] = {
	{"address", 'a', OPTION_STRING, offsetof(struct config, address),
	 "ADDRESS", "the NBD server: HOST:PORT or unix:PATH", NULL, 0, 0},
	{"export", 'e', OPTION_STRING, offsetof(struct config, export_name),
	 "NAME", "the export, with @EPOCH if it has one", NULL, 0, 0},
	{"parts", 'p', OPTION_STRING, offsetof(struct config, parts_file),
	 "FILE",
	 "the exports that make up the device, in place of the two above", NULL,
	 0, 0},
	{"mount", 'm', OPTION_STRING, offsetof(struct config, mount_point),
	 "DIR", "mount here; the data is DIR/" NBD_PROGRAM_EXTENT, NULL, 0, 0},
	{"name", 0, OPTION_STRING, offsetof(struct config, name), "NAME",
	 "source of the mount in the mount table", "tributary", 0, 0},
	{"ublk", 0, OPTION_STRING, offsetof(struct config, ublk), "TAG",
	 "make it a block device, too, known by this tag", NULL, 0, 0},
	{"size", 's', OPTION_SIZE, offsetof(struct config, size), "BYTES",
	 "refuse an export of another size", NULL, 0, 0},
	{"dead-timeout", 0, OPTION_NUMBER,
	 offsetof(struct config, dead_timeout_ms), "MS",
	 "how long I/O waits for a lost server before it fails", "30000", 100,
	 86400000},
	{"read-only", 'r', OPTION_FLAG, offsetof(struct config, read_only),
	 NULL, "refuse writes", NULL, 0, 0},
	{"control-fd", 0, OPTION_NUMBER, offsetof(struct config, control_fd),
	 "FD",
	 "descriptor of a socket to the process that attaches it "
	 "(0: none)",
	 NULL, 0, 1024},
	{"stored-fd", 0, OPTION_NUMBER, offsetof(struct config, stored_fd),
	 "FD",
	 "descriptor of a launcher's socket: go on for a killed trib-nbd "
	 "(0: none)",
	 NULL, 0, 1024},
	{"help", 'h', OPTION_FLAG, offsetof(struct config, help), NULL,
	 "show this", NULL, 0, 0},
	{"version", 0, OPTION_FLAG, offsetof(struct config, version), NULL,
	 "show the version", NULL, 0, 0},
};

static void usage(FILE *out)
{
	(void)fputs(
		"usage: trib-nbd --address ADDRESS --export NAME --mount DIR "
		"[OPTION]...\n"
		"       trib-nbd --parts FILE --mount DIR [OPTION]...\n"
		"Serve an NBD export, or several as one device, as the file "
		"DIR/" NBD_PROGRAM_EXTENT
		"\nuntil DIR is unmounted. With --ublk "
		"also as a block device, which outlives\nthe process that "
		"serves it.\n\n",
		out);
	options_help(rows, array_size(rows), out);
	(void)fputs(
		"\nThe FILE of parts has a line \"version=1\", a line "
		"\"stripe=WIDTH BYTES\" (0 0: end to end),\nand for each part "
		"in order a line \"part=BYTES ADDRESS NAME [INCARNATION]\". "
		"It is read again when\nthe file is truncated to a larger "
		"size. A server of another incarnation is refused.\n",
		out);
}

/*
 * Become an I/O flusher, as we are under a mounted device. No page of ours may
 * have to be read or freed by way of that device. The kernel must not write to
 * devices to find memory for us.
 */
static void become_flusher(void)
{
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) < 0)
		log_warning("PR_SET_IO_FLUSHER: %s; the machine may stall "
			    "when memory is short",
			    strerror(errno));
	/* One heap, grown at once, never given back, no mmap() beside it. */
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_MMAP_MAX, 0);
	(void)mallopt(M_TRIM_THRESHOLD, INT32_MAX);
	(void)mallopt(M_TOP_PAD, HEAP_START);
	free(malloc(HEAP_START / 2));
}

static void lock_memory(void)
{
	if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0)
		log_warning("mlockall: %s; pages of this process may be "
			    "written out",
			    strerror(errno));
}

static void protect_from_oom(void)
{
	/* Its death is that of a mounted disk. */
	int r = oom_set(0, OOM_NEVER);

	if (r < 0)
		log_warning("oom_score_adj: %s; this process may be killed "
			    "when memory is short",
			    strerror(-r));
}

/*
 * Ignore signals: a mounted disk does not go because somebody asked its process
 * to. Detach the disk instead (or unmount, by hand), and the process ends.
 */
static void ignore_signals(void)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)sigaction(SIGHUP, &ignore, NULL);
	(void)sigaction(SIGINT, &ignore, NULL);
	(void)sigaction(SIGTERM, &ignore, NULL);
}

/*
 * Lock the log: who looks for the process finds it by that lock, and it goes
 * with the process.
 */
static void lock_log(void)
{
	const struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	(void)fcntl(STDERR_FILENO, F_SETLK, &all); /* it may be no file */
}

/* ---- the attaching process ---- */

static void tell(const struct config *config, const char *text)
{
	if (config->control_fd)
		/* That process may have died; that is seen when we wait for
		 * it. */
		(void)send((int)config->control_fd, text, strlen(text),
			   MSG_NOSIGNAL);
}

static int tell_failure(const struct config *config, int r,
			const struct error *err)
{
	char text[NBD_PROGRAM_MESSAGE_MAX];

	(void)snprintf(text, sizeof(text), NBD_PROGRAM_ERROR " %d %s", -r,
		       error_text(err));
	tell(config, text);
	return log_error(r, "%s", error_text(err));
}

/*
 * Wait until our pid is in the attachment's record. If its writer dies before,
 * this process ends, too, with nothing left behind.
 */
static int wait_for_go(const struct config *config, struct error *err)
{
	char text[NBD_PROGRAM_MESSAGE_MAX];
	ssize_t n;

	if (!config->control_fd)
		return 0;
	n = recv((int)config->control_fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	if (!strcmp(text, NBD_PROGRAM_GO))
		return 0;
	return error_set(err, ECANCELED, "the attaching process went away");
}

static int check_config(const struct config *config, struct error *err)
{
	if (config->parts_file && (config->address || config->export_name))
		return error_set(err, EINVAL,
				 "--parts goes without --address and --export");
	if ((!config->parts_file &&
	     (!config->address || !config->export_name)) ||
	    !config->mount_point)
		return error_set(err, EINVAL,
				 "--address, --export and --mount are needed, "
				 "or --parts and --mount; see --help");
	return 0;
}

/* One process's part in a device. */
struct life {
	struct nbd_kept *kept; /* of the block device; NULL: there is none */
	struct nbd_stored stored;
	struct nbd_fuse_memory memory;
	bool served;
};

/* The block device. It stays when this process ends. */
static int make_device(const struct config *config, struct nbd_kept *kept,
		       struct nbd_parts *parts, struct nbd_ublk **ret,
		       struct error *err)
{
	const struct nbd_ublk_options options = {
		.tag = config->ublk,
		.read_only = config->read_only,
		.parts = parts,
		.id = kept->id,
	};
	int r = nbd_ublk_new(&options, ret, err);

	if (r < 0)
		return r;
	kept->id = nbd_ublk_id(*ret);
	nbd_kept_note(kept, parts);
	kept->serves = true;
	log_info("it is /dev/ublkb%d, too", kept->id);
	return 0;
}

/* Have the launcher store what the next process needs. */
static int store_all(struct life *life, const struct nbd_fuse *fuse,
		     struct error *err)
{
	int r;

	if (life->memory.goes_on) /* it is there */
		return 0;
	r = nbd_stored_add(&life->stored, NBD_STORED_MEMORY, life->memory.fd);
	if (r == 0)
		r = nbd_stored_add(&life->stored, NBD_STORED_FUSE,
				   nbd_fuse_fd(fuse));
	if (r < 0)
		return error_set(err, -r, "store it: %s", strerror(-r));
	nbd_stored_serve(&life->stored);
	return 0;
}

static int serve_until_unmounted(const struct config *config,
				 struct nbd_fuse *fuse, struct nbd_ublk *ublk,
				 struct nbd_parts *parts, struct error *err)
{
	const struct parts *list = nbd_parts_list(parts);
	int r;

	tell(config, NBD_PROGRAM_MOUNTED);
	if (config->control_fd)
		(void)close((int)config->control_fd);
	log_info("export '%s' of %s%s is %s/" NBD_PROGRAM_EXTENT ", %llu bytes",
		 list->items[0].export_name, list->items[0].address,
		 list->n > 1 ? " and others" : "", config->mount_point,
		 (unsigned long long)nbd_parts_size(parts));
	r = nbd_fuse_run(fuse, ublk);
	if (r < 0)
		return error_set(err, -r, "serving: %s", strerror(-r));
	if (ublk && nbd_ublk_fd(ublk) >= 0)
		return error_set(err, ENOTCONN,
				 "unmounted, but the device is not stopped");
	log_info("unmounted");
	return 0;
}

static int serve(const struct config *config, struct life *life,
		 struct nbd_parts *parts, struct error *err)
{
	struct nbd_kept *kept = life->kept;
	const struct nbd_fuse_options options = {
		.mount_point = config->mount_point,
		.name = config->name,
		.read_only = config->read_only,
		.parts = parts,
		.parts_file = config->parts_file,
		.kept = kept ? kept : &life->memory.shared->kept,
		.memory = &life->memory,
		.fuse_fd = nbd_stored_take(&life->stored, NBD_STORED_FUSE),
		.stored = &life->stored,
	};
	struct nbd_ublk *ublk = NULL;
	struct nbd_fuse *fuse;
	int r;

	if (kept && kept->id >= 0) /* the mount of a process before us */
		(void)umount2(config->mount_point,
			      UMOUNT_NOFOLLOW | MNT_DETACH);
	r = nbd_fuse_new(&options, &fuse, err);
	if (r < 0)
		return r;
	lock_memory();
	r = kept ? make_device(config, kept, parts, &ublk, err)
		 : store_all(life, fuse, err);
	life->served = r == 0;
	if (r == 0)
		r = serve_until_unmounted(config, fuse, ublk, parts, err);
	nbd_fuse_free(fuse);
	nbd_ublk_free(ublk);
	return r;
}

/* The parts to be served, of @size bytes (0: any). Returned owned. */
static int config_parts(const struct config *config, uint64_t size,
			struct parts **ret, struct error *err)
{
	auto_free struct parts *parts = NULL;
	struct segments segments;
	int r;

	if (config->parts_file) {
		r = parts_load(AT_FDCWD, config->parts_file, &parts, err);
		if (r == 0)
			r = parts_segments(parts, &segments, err);
		if (r == 0 && size && size != segments.size)
			r = error_set(err, EINVAL,
				      "%s: its parts have %llu bytes, not %llu",
				      config->parts_file,
				      (unsigned long long)segments.size,
				      (unsigned long long)size);
	} else {
		parts = calloc(1, sizeof(*parts));
		if (!parts)
			return error_set(err, ENOMEM, "no memory");
		parts->n = 1;
		r = parts_set(parts, 0, config->address, config->export_name,
			      size, err);
	}
	if (r == 0)
		*ret = take_ptr(parts);
	return r;
}

/*
 * Another trib-nbd may take the place of this one, onto the same incarnations
 * only.
 */
static void tell_incarnations(const struct config *config,
			      const struct parts *list)
{
	char text[NBD_PROGRAM_MESSAGE_MAX];

	for (unsigned i = 0; i < list->n; i++) {
		(void)snprintf(text, sizeof(text),
			       NBD_PROGRAM_INCARNATION " %u %s", i,
			       list->items[i].incarnation);
		if (list->items[i].incarnation[0])
			tell(config, text);
	}
}

/* The memory of a process that goes on has the exports of the one before. */
static int make_memory(struct life *life, const struct nbd_parts *parts,
		       struct error *err)
{
	int r;

	if (life->memory.goes_on)
		return 0;
	r = nbd_fuse_memory_new(&life->memory, nbd_parts_data_max(parts), err);
	if (r == 0 && !life->kept)
		nbd_kept_note(&life->memory.shared->kept, parts);
	return r;
}

/* What this process goes on with; NULL: it is the first. */
static struct nbd_kept *kept_before(const struct life *life)
{
	return life->memory.goes_on                ? &life->memory.shared->kept
	       : life->kept && life->kept->id >= 0 ? life->kept
						   : NULL;
}

static int connect_parts(const struct config *config, struct life *life,
			 struct nbd_parts **ret, struct error *err)
{
	const struct nbd_kept *before = kept_before(life);
	auto_free struct parts *list = NULL;
	struct nbd_parts_options options = {
		.dead_timeout_ms = (unsigned)config->dead_timeout_ms,
		.read_only = config->read_only,
	};
	/* The device may have grown since. */
	int r = config_parts(config, before ? 0 : config->size, &list, err);

	if (r < 0)
		return r;
	if (life->memory.goes_on) {
		if (list->n < before->n)
			return error_set(err, EPROTO, "it has fewer parts now");
		list->n = before->n;
		options.before = before->exports;
	}
	options.parts = list;
	r = nbd_parts_new(&options, HANDSHAKE_TIMEOUT_MS, ret, err);
	if (r == -EACCES && life->kept)
		life->kept->refused = true;
	return r;
}

static int attach(const struct config *config, struct life *life,
		  struct error *err)
{
	struct nbd_parts *parts;
	int r = connect_parts(config, life, &parts, err);

	if (r < 0)
		return r;
	if (!kept_before(life)) {
		tell_incarnations(config, nbd_parts_list(parts));
		tell(config, NBD_PROGRAM_READY);
		r = wait_for_go(config, err);
	} else if (life->kept) {
		r = nbd_kept_check(life->kept, parts, err);
	}
	if (r == 0)
		r = make_memory(life, parts, err);
	if (r == 0)
		r = serve(config, life, parts, err);
	nbd_parts_free(parts);
	return r;
}

/* One process of several, one after the other. */
static int attach_once(void *context, struct nbd_kept *kept)
{
	struct config config = *(const struct config *)context;
	struct life life = {.kept = kept, .memory = {.fd = -1}};
	struct error err = {.code = 0};
	int r;

	if (kept->id >= 0) /* the first has told it all */
		config.control_fd = 0;
	r = attach(&config, &life, &err);
	nbd_fuse_memory_done(&life.memory);
	return r < 0 ? tell_failure(&config, r, &err) : 0;
}

static int attach_to_survive(struct config *config)
{
	struct error err = {.code = 0};
	int r;

	lock_memory();
	r = nbd_survive(attach_once, config,
			config->control_fd ? (int)config->control_fd : -1,
			(unsigned)config->dead_timeout_ms, &err);
	return r < 0 && err.code ? log_error(r, "%s", error_text(&err)) : r;
}

#define NEXT_WORDS 16

/* The command line of the process that goes on when this one is killed. */
static void next_argv(const struct config *config, char timeout[static 24],
		      const char *ret[static NEXT_WORDS])
{
	const struct {
		const char *word, *value;
	} words[] = {
		{"--address", config->address},
		{"--export", config->export_name},
		{"--parts", config->parts_file},
		{"--mount", config->mount_point},
		{"--dead-timeout", timeout},
		{"--stored-fd", "3"}, /* as the launcher passes it */
	};
	size_t n = 0;

	(void)snprintf(timeout, 24, "%llu",
		       (unsigned long long)config->dead_timeout_ms);
	ret[n++] = "trib-nbd";
	for (size_t i = 0; i < array_size(words); i++) {
		if (!words[i].value)
			continue;
		ret[n++] = words[i].word;
		ret[n++] = words[i].value;
	}
	if (config->read_only)
		ret[n++] = "--read-only";
	ret[n] = NULL;
}

/* Go on with what the launcher has stored, if it did. */
static int life_begin(const struct config *config, struct life *life,
		      const char *const *next, struct error *err)
{
	int socket = config->stored_fd ? (int)config->stored_fd : -1;
	int r = nbd_stored_begin(&life->stored, next, socket, err);

	if (r == 0 && socket >= 0)
		r = nbd_fuse_memory_open(
			&life->memory,
			nbd_stored_take(&life->stored, NBD_STORED_MEMORY), err);
	return r;
}

/* Is there an end to it? Else another process may succeed. */
static bool ends_here(const struct life *life, int r)
{
	return life->served || !life->memory.goes_on || r == -ENOTCONN ||
	       r == -EPROTO;
}

static int attach_here(const struct config *config)
{
	const char *next[NEXT_WORDS];
	struct life life = {.memory = {.fd = -1}};
	struct error err = {.code = 0};
	char timeout[24];
	int r;

	next_argv(config, timeout, next);
	r = life_begin(config, &life, next, &err);
	if (r == 0)
		r = attach(config, &life, &err);
	if (ends_here(&life, r))
		nbd_stored_end(&life.stored);
	nbd_fuse_memory_done(&life.memory);
	return r < 0 ? tell_failure(config, r, &err) : 0;
}

/* ---- main ---- */

int main(int argc, char **argv)
{
	struct config config = {.size = 0};
	struct error err = {.code = 0};
	int index, r;

	log_setup("trib-nbd", LOG_LEVEL_INFO);
	options_defaults(rows, array_size(rows), &config);
	r = options_parse(rows, array_size(rows), &config, argc, argv, &index,
			  &err);
	if (!r && index < argc)
		r = error_set(&err, EINVAL,
			      "'%s': no such argument; see "
			      "--help",
			      argv[index]);
	if (!r && config.help) {
		usage(stdout);
	} else if (!r && config.version) {
		(void)puts("trib-nbd " TRIBUTARY_VERSION);
	} else {
		if (!r)
			r = check_config(&config, &err);
		if (r < 0) {
			r = tell_failure(&config, r, &err);
		} else {
			lock_log();
			become_flusher();
			protect_from_oom();
			ignore_signals();
			r = config.ublk ? attach_to_survive(&config)
					: attach_here(&config);
		}
	}
	options_done(rows, array_size(rows), &config);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
