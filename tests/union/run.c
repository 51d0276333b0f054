/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/draining.h"
#include "tests/union/erring.h"
#include "tests/union/hurting.h"
#include "tests/union/intruding.h"
#include "tests/union/killing.h"
#include "tests/union/mounting.h"
#include "tests/union/quotas.h"

#define INTRUDED 4 /* of so many seeds one */

/* Reports of lanes, in memory that all share. */
struct told {
	int calls[RUN_LANES_MAX];
	unsigned long refused, needless,
		done; /* while a file system was lost */
	char said[RUN_LANES_MAX][RUN_SAY_MAX];
};

struct running {
	const struct plan *plan;
	const struct place *place;
	char *branches[TREE_BRANCHES_MAX];  /* paths */
	char *specs[TREE_BRANCHES_MAX + 1]; /* the same, as it is mounted */
	char plain[PATH_MAX], mnt[PATH_MAX];
	struct mounting mounting;
	struct hurting hurting;
	struct erring erring;
	struct quotas quotas;
	bool closed[TREE_BRANCHES_MAX]; /* take no new names */
	struct told *told;
};

/* Of a lane, in both trees. */
struct actors {
	struct actor plain[OP_ACTORS], mine[OP_ACTORS];
};

static void lane_root(const char *tree, unsigned lane, char *ret)
{
	int n = lane ? snprintf(ret, PATH_MAX, "%s/lane%u", tree, lane)
		     : snprintf(ret, PATH_MAX, "%s", tree);

	if (n >= PATH_MAX)
		abort();
}

static void say_call(char *said, unsigned lane, unsigned i, const struct op *op,
		     const char *plain, const char *mine)
{
	char call[3 * OP_PATH_MAX];

	op_describe(op, call, sizeof(call));
	(void)snprintf(said, RUN_SAY_MAX,
		       "lane %u call %u: %s\nplain:%.6000s\nunion:%.6000s\n",
		       lane, i, call, plain, mine);
}

/*
 * Tell whether a call may lack room. An object that can't be on another branch
 * than its owner may find no room there. Then nothing has changed, and the
 * plain tree is not asked.
 */
static bool may_lack_room(const struct running *run, const struct op *op,
			  const char *text)
{
	switch (op->kind) {
	case OP_RENAME:
	case OP_LINK:
	case OP_LINK_OPEN:
	case OP_HANDLE: /* a rename is part of it */
	case OP_SETXATTR:
	case OP_ACL: break;
	case OP_CHOWN: /* to who may not have so much */
		if (!run->place->quotas)
			return false;
		break;
	default: return false;
	}
	return (run->place->little && strstr(text, "ENOSPC")) ||
	       (run->place->quotas && strstr(text, "EDQUOT"));
}

static int compare_trees(const char *plain, const char *mine, const char *when,
			 char *said)
{
	auto_free char *a = tree_describe(plain, false);
	auto_free char *b = tree_describe(mine, false);

	erring_overlook(a);
	erring_overlook(b);
	char difference[RUN_SAY_MAX / 2];

	if (strcmp(a, b) == 0)
		return 0;
	tree_difference(a, b, difference, sizeof(difference));
	(void)snprintf(said, RUN_SAY_MAX, "%s:\n%s\n", when, difference);
	return 1;
}

/*
 * Tell whether two answers may differ. To SEEK_DATA, an allocated range that
 * was never written is data where the kernel happens to have it in memory.
 * Elsewhere it is a hole (mm/filemap.c, mapping_seek_hole_data()). Then both
 * answers are right, if they are true.
 */
static bool may_differ(const struct op *op, const char *plain, const char *mine)
{
	return op->kind == OP_SEEK && strstr(plain, OP_SEEK_UNWRITTEN) &&
	       !strstr(plain, OP_SEEK_WRONG) && !strstr(mine, OP_SEEK_WRONG);
}

static int say_differ(const struct running *run, unsigned lane, unsigned i,
		      const char *plain, const char *mine)
{
	say_call(run->told->said[lane], lane, i, &run->plan->ops[lane][i],
		 plain, mine);
	run->told->calls[lane] = (int)i;
	return 1;
}

static bool too_many_needless(const struct running *run)
{
	unsigned long done = run->told->done;

	return run->told->needless > (run->place->killing
					      ? HURTING_NEEDLESS_KILLED(done)
					      : HURTING_NEEDLESS_MAX(done));
}

/*
 * Tell whether the union refused @op, with the result @text, as it has lost a
 * file system. Then the plain tree is not asked. A call that it was not to
 * refuse is a difference: @differs.
 */
static bool was_refused(const struct running *run, const struct op *op,
			const char *text, bool *differs)
{
	enum hurting_eio eio;

	*differs = false;
	if (!run->hurting.now)
		return false;
	if (!strstr(text, " EIO")) {
		run->told->done++;
		return false;
	}
	run->told->refused++;
	eio = hurting_judge(&run->hurting, op);
	run->told->needless += eio == HURTING_NEEDLESS;
	*differs = eio == HURTING_WRONG || too_many_needless(run);
	return true;
}

/* 0, or 1 when they differ. */
static int do_both(const struct running *run, unsigned lane, unsigned i,
		   const struct actors *actors)
{
	static char texts[2][OP_TEXT_MAX];
	struct op op = run->plan->ops[lane][i];
	bool differs;
	int r[2];

	if ((run->hurting.now && hurting_leaves_out(&op)) ||
	    erring_leaves_out(&run->erring, &op))
		return 0;
	op.watch = op.watch && !run->hurting.now;
	r[1] = actor_do(&actors->mine[op.actor], &op, texts[1]);
	if (r[1] == 0 && may_lack_room(run, &op, texts[1]))
		return 0;
	if (r[1] == 0 && was_refused(run, &op, texts[1], &differs))
		return differs &&
		       say_differ(run, lane, i, " not asked", texts[1]);
	if (r[1] == 0 && strstr(texts[1], " EPERM") &&
	    erring_explains(&run->erring, &op))
		return 0;
	r[0] = actor_do(&actors->plain[op.actor], &op, texts[0]);
	if (run->place->verbose) {
		char call[3 * OP_PATH_MAX];

		op_describe(&op, call, sizeof(call));
		printf("%u:%u: %s ->%s\n", lane, i, call, texts[0]);
	}
	if (run->hurting.now) {
		hurting_overlook(texts[0]);
		hurting_overlook(texts[1]);
	}
	erring_overlook(texts[0]);
	erring_overlook(texts[1]);
	if (r[0] == 0 && r[1] == 0 &&
	    ((run->place->erring ? erring_alike(&op, texts[0], texts[1])
				 : strcmp(texts[0], texts[1]) == 0) ||
	     may_differ(&op, texts[0], texts[1])))
		return 0;
	return say_differ(run, lane, i,
			  r[0] < 0 ? strerrorname_np(-r[0]) : texts[0],
			  r[1] < 0 ? strerrorname_np(-r[1]) : texts[1]);
}

static void start_actors(const struct running *run, unsigned lane,
			 struct actors *ret)
{
	/* A mistake while a file system is lost is made then only. */
	bool faulty = !run->place->hurting || run->hurting.now;
	char plain[PATH_MAX], mine[PATH_MAX];
	unsigned i;

	lane_root(run->plain, lane, plain);
	lane_root(run->mnt, lane, mine);
	for (i = 0; i < OP_ACTORS; i++) {
		actor_start(&ret->plain[i], i, plain, FAULT_NONE);
		actor_start(&ret->mine[i], i, mine,
			    faulty ? run->place->fault : FAULT_NONE);
	}
}

static void stop_actors(struct actors *actors)
{
	unsigned i;

	for (i = 0; i < OP_ACTORS; i++) {
		actor_stop(&actors->plain[i]);
		actor_stop(&actors->mine[i]);
	}
}

/*
 * Take the file system away, or bring it back, if call @i is the time for it.
 * Open files are closed then: they belong to the file system that was lost.
 */
static int hurt_or_heal(struct running *run, unsigned i, struct actors *actors)
{
	bool begins = i == run->plan->lost_at;
	char *said = run->told->said[0];
	int r;

	if (!run->place->hurting || (!begins && i != run->plan->back_at))
		return 0;
	stop_actors(actors);
	r = begins ? hurting_begin(&run->hurting, said)
		   : hurting_end(&run->hurting, said);
	if (r == 0 && !begins)
		r = compare_trees(run->plain, run->mnt, "when it is back",
				  said);
	start_actors(run, 0, actors);
	return r;
}

static int run_lane(struct running *run, unsigned lane)
{
	const bool *left_out = run->plan->left_out;
	char ignored[HURTING_SAY_MAX];
	struct actors actors;
	unsigned i;
	int r = 0;

	start_actors(run, lane, &actors);
	for (i = 0; i < run->plan->count && r == 0; i++) {
		r = hurt_or_heal(run, i, &actors);
		if (r == 0 && (!left_out || !left_out[i]))
			r = do_both(run, lane, i, &actors);
	}
	stop_actors(&actors);
	if (run->hurting.now) /* for who comes after */
		(void)hurting_end(&run->hurting, ignored);
	return r != 0;
}

/* All lanes at once; 1 when any met a difference. */
static int run_lanes(struct running *run, struct found *ret)
{
	pid_t pids[RUN_LANES_MAX];
	unsigned i;
	int status, r = 0;

	(void)fflush(NULL); /* a child must not print it again */
	for (i = 0; i < run->plan->lanes; i++) {
		run->told->calls[i] = -1;
		pids[i] = -1;
		if (run->plan->lane >= 0 && run->plan->lane != (int)i)
			continue;
		pids[i] = fork();
		if (pids[i] == 0) {
			status = run_lane(run, i);
			(void)fflush(NULL);
			_exit(status);
		}
	}
	for (i = 0; i < run->plan->lanes; i++) {
		if (pids[i] < 0 || waitpid(pids[i], &status, 0) < 0 ||
		    status == 0 || r)
			continue;
		r = 1;
		(void)snprintf(ret->said, RUN_SAY_MAX, "%s",
			       WIFEXITED(status) ? run->told->said[i]
						 : "a lane died");
		ret->lane = (int)i;
		ret->call = run->told->calls[i];
	}
	return r;
}

static int say_broken(char *said, const char *what, const char *how)
{
	(void)snprintf(said, RUN_SAY_MAX, "%s: %s\n", what, how);
	return 1;
}

static int mount_it(struct running *run)
{
	char options[PATH_MAX + sizeof(run->plan->options)];

	(void)snprintf(options, sizeof(options), "%s,control=%s/ctl",
		       run->plan->options, run->place->dir);
	return mounting_start(&run->mounting, options, run->specs,
			      run->plan->branches + run->plan->read_only);
}

/* Files that the union moved from branch to branch since it was mounted. */
static unsigned long moved_files(const char *status)
{
	static const char key[] = "\"moved_files\":";
	const char *at = status ? strstr(status, key) : NULL;

	return at ? strtoul(at + strlen(key), NULL, 10) : 0;
}

static bool has_not_failed(const char *status)
{
	static const char key[] = "\"failures\":";
	const char *at = status;

	while (at && (at = strstr(at, key)))
		if (*(at += strlen(key)) != '0')
			return false;
	return status != NULL;
}

/* The lanes, and who drains branches meanwhile. */
static int run_all(struct running *run, struct found *ret)
{
	char socket[PATH_MAX];
	struct draining draining = {.program = run->place->program,
				    .socket = socket,
				    .branches = run->branches,
				    .count = run->plan->branches,
				    .seed = run->plan->seed};
	struct killing killing = {.supervisor = run->mounting.pid,
				  .seed = run->plan->seed};
	struct intruding intruding = {.program = run->place->program,
				      .dir = run->place->dir,
				      .branches = run->branches,
				      .count = run->plan->branches,
				      .seed = run->plan->seed};
	bool drains = run->place->draining && run->plan->branches > 1;
	/* A branch that was emptied, or has failed, is free. */
	bool intrudes = run->plan->seed % INTRUDED == 0 && !drains &&
			!run->place->hurting;
	auto_free char *status = NULL;
	int r;

	(void)snprintf(socket, sizeof(socket), "%s/ctl", run->place->dir);
	if (drains)
		draining_start(&draining);
	if (run->place->killing)
		killing_start(&killing);
	if (intrudes)
		intruding_start(&intruding);
	r = run_lanes(run, ret);
	if (intrudes && intruding_stop(&intruding) && r == 0)
		r = say_broken(ret->said, "a second union",
			       "was mounted over branches in use");
	if (run->place->killing)
		ret->killed = killing_stop(&killing);
	if (drains)
		draining_stop(&draining);
	status = mounting_status(run->place->program, run->place->dir);
	if (r == 0 && run->place->erring && !run->place->hurting &&
	    !has_not_failed(status))
		r = say_broken(ret->said, "a branch has failed",
			       status ? status : "it says nothing");
	ret->moved = moved_files(status);
	ret->erred = run->erring.flagged + run->erring.damaged;
	ret->refused = run->told->refused;
	ret->needless = run->told->needless;
	ret->done = run->told->done;
	return r;
}

/* Mounted again it is the same tree, with the same inode numbers. */
static int check_after(struct running *run, char *said)
{
	auto_free char *before = tree_describe(run->mnt, true);
	auto_free char *after = NULL;
	char how[MOUNTING_SAY_MAX];
	unsigned i;
	int r = compare_trees(run->plain, run->mnt, "in the end", said);

	if (mounting_stop(&run->mounting, how) < 0)
		return say_broken(said, "the server's end", how);
	if (r)
		return r;
	for (i = 0; run->place->draining && i < run->plan->branches; i++)
		draining_renew(run->branches[i], run->plain);
	r = mount_it(run);
	if (r < 0)
		return say_broken(said, "mount again", strerror(-r));
	after = tree_describe(run->mnt, true);
	r = compare_trees(run->plain, run->mnt, "mounted again", said);
	if (r == 0 && strcmp(before, after) != 0) {
		tree_difference(before, after, said, RUN_SAY_MAX);
		r = 1;
	}
	if (mounting_stop(&run->mounting, how) < 0)
		return say_broken(said, "the server's second end", how);
	return r;
}

static void prepare(struct running *run)
{
	const struct place *place = run->place;
	char path[PATH_MAX];
	unsigned i;

	(void)snprintf(run->plain, PATH_MAX, "%s/plain/tree", place->dir);
	(void)snprintf(run->mnt, PATH_MAX, "%s/mnt", place->dir);
	run->mounting.program = place->program;
	run->mounting.point = run->mnt;
	if (mkdir(run->plain, 0755) < 0 && errno != EEXIST)
		abort();
	if (tree_clear(run->plain) < 0)
		abort();
	for (i = 0; i < run->plan->branches; i++) {
		(void)snprintf(path, PATH_MAX, "%s/fs%u/b%u", place->dir,
			       i % place->file_systems, i);
		run->branches[i] = strdup(path);
		if ((mkdir(path, 0755) < 0 && errno != EEXIST) ||
		    tree_clear(path) < 0)
			abort();
		if (asprintf(&run->specs[i], "%s%s%s", path,
			     *run->plan->words[i] ? "=" : "",
			     run->plan->words[i]) < 0)
			abort();
	}
	/* The latest times are seen, and those here cannot be set. */
	(void)snprintf(path, PATH_MAX, "%s/fs0/ro", place->dir);
	if ((mkdir(path, 0755) < 0 && errno != EEXIST) ||
	    utimensat(AT_FDCWD, path, (struct timespec[2]){0}, 0) < 0 ||
	    asprintf(&run->specs[i], "%s=RO", path) < 0)
		abort();
}

/* Make the directory anew, without marks that a call left on it. */
static void reset_root(const char *path)
{
	(void)rmdir(path);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		abort();
}

/*
 * Add a subvolume of Btrfs: it is another device to a union, and has no name
 * there.
 */
static void add_subvolume(const char *branch)
{
	struct btrfs_ioctl_vol_args args = {.name = "subvolume"};
	auto_close int fd = open(branch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = ioctl(fd, BTRFS_IOC_SUBVOL_CREATE, &args);

	if (fd < 0 || (r < 0 && errno != ENOTTY))
		abort();
	if (r == 0 && mkdirat(fd, "subvolume/dir", 0755) < 0)
		abort();
}

static void prepare_loss(struct running *run)
{
	const struct plan *plan = run->plan;
	unsigned i;

	run->hurting = (struct hurting){
		.dir = run->place->dir,
		.program = run->place->program,
		.mnt = run->mnt,
		.branches = run->branches,
		.count = plan->branches,
		.file_systems = run->place->file_systems,
		.lost = plan->lost};
	for (i = 0; i < plan->branches; i++)
		if (chmod(run->branches[i], 0777) < 0)
			abort();
	if (chmod(run->plain, 0777) < 0)
		abort();
	hurting_prepare(&run->hurting, run->plain);
}

static int prepare_errors(struct running *run, struct error *err)
{
	const struct plan *plan = run->plan;
	unsigned i;

	for (i = 0; i < plan->branches; i++)
		run->closed[i] = strncasecmp(plan->words[i], "nc", 2) == 0;
	run->erring = (struct erring){.dir = run->place->dir,
				      .plain = run->plain,
				      .branches = run->branches,
				      .closed = run->closed,
				      .count = plan->branches,
				      .file_systems = run->place->file_systems};
	return erring_begin(&run->erring, plan->seed, err);
}

/* Both trees as they are to be when the union is mounted. */
static int fill(struct running *run, struct error *err)
{
	const struct plan *plan = run->plan;
	const struct place *place = run->place;
	unsigned i;
	int r = 0;

	reset_root(run->plain);
	for (i = 0; i < plan->branches; i++)
		reset_root(run->branches[i]);
	run->quotas = (struct quotas){.dir = place->dir,
				      .branches = run->branches,
				      .count = plan->branches,
				      .file_systems = place->file_systems};
	if (place->quotas)
		r = quotas_prepare(&run->quotas, plan->seed, err);
	/* Which file hides which is not to change with the branches. */
	if (r == 0 && !place->hurting)
		r = tree_populate(plan->seed, run->branches, plan->branches,
				  RUN_LANES_MAX, run->plain);
	for (i = 0; i < plan->branches && op_other_kind; i++)
		add_subvolume(run->branches[i]);
	if (r == 0 && place->hurting)
		prepare_loss(run);
	if (r == 0 && place->erring)
		r = prepare_errors(run, err);
	if (r == 0 && place->quotas)
		r = quotas_begin(&run->quotas, err);
	return r;
}

int run_plan(const struct plan *plan, const struct place *place,
	     struct found *ret)
{
	char *said = ret->said;
	char how[MOUNTING_SAY_MAX];
	struct running run = {.plan = plan, .place = place};
	struct error err = {0};
	unsigned i;
	int r = 0;

	ret->lane = ret->call = -1;
	ret->killed = ret->moved = ret->refused = ret->needless = ret->done = 0;
	ret->erred = 0;
	run.told = mmap(NULL, sizeof(*run.told), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run.told == MAP_FAILED)
		abort();
	prepare(&run);
	r = fill(&run, &err);
	if (r == 0)
		r = mount_it(&run);
	if (r < 0) {
		r = say_broken(said, "mount",
			       err.code ? err.msg : strerror(-r));
	} else {
		r = compare_trees(run.plain, run.mnt, "at the start", said);
		if (r == 0)
			r = run_all(&run, ret);
		if (r == 0)
			r = check_after(&run, said);
		else if (mounting_stop(&run.mounting, how) < 0)
			(void)fprintf(stderr, "the server's end: %s\n", how);
	}
	if (r == 0 && place->quotas)
		r = quotas_check(&run.quotas, said);
	if (erring_end(&run.erring, &err) < 0)
		r = say_broken(said, "what was damaged", err.msg);
	for (i = 0; i < plan->branches; i++)
		free(run.branches[i]);
	for (i = 0; i <= plan->branches; i++)
		free(run.specs[i]);
	(void)munmap(run.told, sizeof(*run.told)); /* it is one */
	return r;
}

/*
 * Try the plan without calls [at, end). If there is a difference still, they
 * stay out, and it is true.
 */
static bool try_without(struct plan *plan, const struct place *place,
			unsigned at, unsigned end)
{
	static struct found found;
	bool *before = calloc(plan->count, sizeof(bool));
	unsigned i, changed = 0;
	bool differs;

	if (!before)
		abort();
	memcpy(before, plan->left_out, plan->count * sizeof(bool));
	for (i = at; i < end && i < plan->count; i++) {
		changed += !plan->left_out[i];
		plan->left_out[i] = true;
	}
	differs = changed && run_plan(plan, place, &found);
	if (!differs)
		memcpy(plan->left_out, before, plan->count * sizeof(bool));
	free(before);
	return differs;
}

unsigned run_shrink(struct plan *plan, const struct place *place,
		    const struct found *found)
{
	unsigned i, at, piece, left = 0;

	plan->left_out = calloc(plan->count, sizeof(bool));
	if (!plan->left_out)
		abort();
	plan->lane = found->lane < 0 ? 0 : found->lane;
	/* What differs no more when it is done again has no part that does. */
	if (found->call >= 0 && (unsigned)found->call + 1 < plan->count &&
	    !try_without(plan, place, (unsigned)found->call + 1, plan->count))
		return plan->count;
	for (piece = plan->count / 2; piece; piece /= 2)
		for (at = 0; at < plan->count; at += piece)
			(void)try_without(plan, place, at, at + piece);
	for (i = 0; i < plan->count; i++)
		left += !plan->left_out[i];
	return left;
}
