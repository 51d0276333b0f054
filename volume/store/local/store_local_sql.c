/* SPDX-License-Identifier: Apache-2.0 */
/* store_local.h: SQLite in our words. */
#include <errno.h>
#include <stdarg.h>

#include "volume/store/local/store_local.h"

int local_failed(struct local *local, int rc, const char *doing,
		 struct error *err)
{
	int code = EIO;

	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED: code = ETIMEDOUT; break;
	case SQLITE_FULL: code = ENOSPC; break;
	case SQLITE_NOMEM: code = ENOMEM; break;
	case SQLITE_PERM:
	case SQLITE_READONLY:
	case SQLITE_AUTH: code = EACCES; break;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB: code = EUCLEAN; break;
	default: break;
	}
	return error_set(
		err, code, "%s in the store %s: %s", doing, local->path,
		local->db ? sqlite3_errmsg(local->db) : sqlite3_errstr(rc));
}

int local_run(struct local *local, const char *sql, struct error *err)
{
	int rc = sqlite3_exec(local->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : local_failed(local, rc, "writing", err);
}

int local_prepare(struct local *local, sqlite3_stmt **ret, struct error *err,
		  const char *sql, const char *types, ...)
{
	int rc = sqlite3_prepare_v2(local->db, sql, -1, ret, NULL);
	va_list ap;

	va_start(ap, types);
	for (int i = 1; *types && rc == SQLITE_OK; i++, types++) {
		if (*types == 't')
			rc = sqlite3_bind_text(*ret, i, va_arg(ap, char *), -1,
					       SQLITE_TRANSIENT);
		else
			rc = sqlite3_bind_int64(*ret, i, va_arg(ap, int64_t));
	}
	va_end(ap);
	return rc == SQLITE_OK ? 0 : local_failed(local, rc, "reading", err);
}

int local_step(struct local *local, sqlite3_stmt *statement, struct error *err)
{
	int rc = sqlite3_step(statement);

	if (rc == SQLITE_ROW)
		return 1;
	return rc == SQLITE_DONE ? 0 : local_failed(local, rc, "working", err);
}

int64_t local_number(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement = NULL;
	int64_t value = -1;

	if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
	    sqlite3_step(statement) == SQLITE_ROW)
		value = sqlite3_column_int64(statement, 0);
	(void)sqlite3_finalize(statement);
	return value;
}

int local_begin(struct local *local, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&local->lock);
	r = local_run(local, "BEGIN IMMEDIATE", err);
	if (r < 0)
		(void)pthread_mutex_unlock(&local->lock);
	return r;
}

int local_end(struct local *local, int r, struct error *err)
{
	if (r == 0)
		r = local_run(local, "COMMIT", err);
	if (r < 0)
		(void)sqlite3_exec(local->db, "ROLLBACK", NULL, NULL, NULL);
	(void)pthread_mutex_unlock(&local->lock);
	return r;
}
