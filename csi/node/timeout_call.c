/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node/timeout_call.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STACK_BYTES (256u << 10)

struct task {
	char key[TIMEOUT_KEY_SIZE];
	void (*work)(void *job);
	void (*done)(void *job);
	void *job;
	bool ended;
	bool left; /* by its caller */
	struct task *next;
};

/* @lock guards the list and the flags; @changed: a task has ended. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct task *tasks;
static unsigned n_tasks;

static struct timespec deadline(int timeout_ms)
{
	struct timespec end;

	(void)clock_gettime(CLOCK_MONOTONIC, &end); /* it is there */
	end.tv_sec += timeout_ms / 1000;
	end.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_nsec -= 1000000000;
		end.tv_sec++;
	}
	return end;
}

static bool task_find(const char *key)
{
	for (const struct task *t = tasks; t; t = t->next)
		if (strcmp(t->key, key) == 0)
			return true;
	return false;
}

static void task_remove(struct task *task)
{
	struct task **at = &tasks;

	while (*at != task)
		at = &(*at)->next;
	*at = task->next;
	n_tasks--;
}

static void *task_run(void *task_)
{
	struct task *task = task_;
	bool left;

	task->work(task->job);
	pthread_mutex_lock(&lock);
	task->ended = true;
	left = task->left;
	if (left)
		task_remove(task);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (left) {
		task->done(task->job);
		free(task);
	}
	return NULL;
}

/* With the lock. */
static int task_start(struct task *task)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (task_find(task->key))
		return -ETIMEDOUT;
	if (n_tasks >= TIMEOUT_CALLS_MAX)
		return -EAGAIN;
	(void)pthread_attr_init(&attr); /* cannot fail on Linux */
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = pthread_create(&thread, &attr, task_run, task);
	(void)pthread_attr_destroy(&attr);
	if (r != 0)
		return -EAGAIN;
	task->next = tasks;
	tasks = task;
	n_tasks++;
	return 0;
}

/* With the lock. */
static int task_wait(struct task *task, int timeout_ms)
{
	const struct timespec end = deadline(timeout_ms);

	while (!task->ended)
		if (pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC,
					   &end) == ETIMEDOUT)
			break;
	if (task->ended) {
		task_remove(task);
		return 0;
	}
	task->left = true;
	return -ETIMEDOUT;
}

int timeout_call(const char *key, int timeout_ms, void (*work)(void *job),
		 void *job, void (*done)(void *job))
{
	struct task *task = calloc(1, sizeof(*task));
	bool started;
	int r;

	if (!task) {
		done(job);
		return -EAGAIN;
	}
	(void)snprintf(task->key, sizeof(task->key), "%s", key);
	task->work = work;
	task->done = done;
	task->job = job;
	pthread_mutex_lock(&lock);
	r = task_start(task);
	started = r == 0;
	if (started)
		r = task_wait(task, timeout_ms);
	pthread_mutex_unlock(&lock);
	if (!started)
		done(job);
	/* A task that was left is its thread's. */
	if (!started || r == 0)
		free(task);
	return r;
}

bool timeout_call_wait_all(int timeout_ms)
{
	const struct timespec end = deadline(timeout_ms);
	bool all;

	pthread_mutex_lock(&lock);
	while (tasks)
		if (pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC,
					   &end) == ETIMEDOUT)
			break;
	all = !tasks;
	pthread_mutex_unlock(&lock);
	return all;
}

/* ---- statvfs ---- */

struct look {
	char *path;
	struct statvfs vfs;
	int r;
};

static void statvfs_work(void *look_)
{
	struct look *look = look_;

	look->r = statvfs(look->path, &look->vfs) < 0 ? -errno : 0;
}

static void statvfs_done(void *look_)
{
	struct look *look = look_;

	free(look->path);
	free(look);
}

int timeout_statvfs(const char *path, int timeout_ms, struct statvfs *ret)
{
	struct look *look = calloc(1, sizeof(*look));
	int r;

	if (!look)
		return -ENOMEM;
	look->path = strdup(path);
	if (!look->path) {
		free(look);
		return -ENOMEM;
	}
	r = timeout_call(path, timeout_ms, statvfs_work, look, statvfs_done);
	if (r < 0)
		return r;
	r = look->r;
	if (r == 0)
		*ret = look->vfs;
	statvfs_done(look);
	return r;
}
