$(eval $(call library,union,\
  union/change/replay.c union/live/kernel_invalidate.c union/change/hidden_files.c union/branch/atime.c union/sys/attrs.c union/recover/leaked_backing_ids.c union/branch/branch.c \
  union/branch/branch_failed.c union/branch/branch_health.c union/state/branch_identity.c union/branch/branch_lock.c union/branch/branch_path.c union/branch/branch_probe.c union/view/btime.c union/config/branch_spec.c union/branch/branch_try.c union/branch/branch_work.c \
  union/change/act_as.c union/change/orphan_begin.c union/change/caller.c union/change/clone_dir.c union/control/control.c union/control/control_client.c \
  union/control/control_command.c union/control/control_proto.c union/live/control_status.c \
  union/sys/copy_data.c union/view/dir_change.c union/branch/dir_fd.c union/open/dir_listing.c union/sys/dir_offset.c union/open/dir_parts.c union/open/dir_read.c union/node/dir_attr_lock.c \
  union/ops/dot_union.c union/live/drain.c union/migrate/drain_dir.c union/migrate/drain_walk.c union/open/durable.c union/sys/empty_dir.c union/state/stuck_server.c union/supervisor/stuck_servers.c \
  union/ops/explain.c union/sys/file_in_use.c union/migrate/inode_paths.c union/branch/folding.c union/open/branch_full.c union/state/fuse_connection.c \
  union/node/migrate_lock.c union/sys/handle.c union/sys/task_blocked.c union/live/branch_recover.c union/supervisor/supervisor_mount.c union/supervisor/supervisor_stored.c union/supervisor/supervisor.c union/sys/immutable.c \
  union/sys/task_syscall.c union/sys/inode_number.c union/branch/intent.c union/migrate/intent_recover.c union/state/fd_store.c union/state/death_pipe.c union/sys/limits.c \
  union/live/add_branch.c union/live/remove_branch.c union/live/set_branch.c union/view/lookup.c \
  union/view/merge.c union/view/open_copy.c union/state/thread_branches.c union/serve/mount.c union/live/mount_strict.c union/config/mount_words.c union/branch/submount.c union/migrate/migrate_file.c union/migrate/migrate_check.c union/migrate/migrate_copy.c union/node/dirty_ranges.c union/sys/named.c union/view/name_filter.c union/view/name_hash_set.c \
  union/node/node.c union/node/orphan_inode.c union/node/node_copies.c union/node/node_index.c union/node/lost_forget.c union/node/preserve_ctime.c \
  union/node/node_restore.c union/node/forgotten.c \
  union/node/node_reclaim.c union/migrate/nudge.c union/branch/ino_preserve.c union/state/reply_cache.c union/state/reply_cache_slots.c union/serve/pending_names.c \
  union/open/open_dir.c union/open/open_file.c union/open/open_restore.c union/state/open_table.c union/branch/owner.c union/ops/ops.c union/ops/privileges.c union/ops/reply.c union/ops/ops_attr.c \
  union/ops/ops_dir.c union/ops/ops_io.c union/ops/ops_lookup.c union/ops/ops_name.c \
  union/ops/ops_open.c union/ops/ops_rename.c union/ops/ops_xattr.c union/config/options.c \
  union/config/options_branches.c union/config/options_mergerfs.c union/supervisor/restart_backoff.c union/open/passthrough.c \
  union/change/place.c union/config/policy.c union/state/policy_record.c union/config/policy_set.c union/view/preserve_mtime.c \
  union/migrate/relocate.c union/live/remount.c union/live/remounted.c union/change/remove_dir.c union/change/rename_dir.c \
  union/change/rename_exchange.c union/change/rename_hits.c union/change/rename_parts.c union/state/request.c union/migrate/room.c \
  union/recover/saved_nodes.c union/recover/saved_nodes_file.c union/view/lookup_policy.c union/serve/fuse_threads.c union/serve/watchdog.c union/live/settings.c union/state/state.c union/view/state_note.c union/sys/statx.c union/view/subdirs.c union/view/branch_stats.c \
  union/recover/handover.c union/ops/trim.c union/recover/unfinished.c union/view/unionfs.c union/recover/unionfs_life.c union/view/unseen.c,fuse3 json-c,launch base))
$(eval $(call program,trib-union,union/main.c,union))
$(eval $(call test_helper,union/testkit/outcomes,base,))
$(eval $(call test_helper,union/testkit/random_io,base,))
$(foreach t,branch/branch branch/branch_health control/control_proto branch/dir_fd\
  sys/dir_offset node/migrate_lock sys/handle sys/task_blocked\
  supervisor/supervisor sys/inode_number branch/intent state/fd_store sys/limits\
  live/remove_branch view/merge state/thread_branches branch/submount view/name_filter\
  node/node node/lost_forget node/node_restore state/open_table\
  config/options supervisor/restart_backoff serve/pending_names config/policy\
  state/policy_record config/policy_set view/preserve_mtime state/request\
  sys/statx recover/handover view/unionfs view/unseen,\
  $(eval $(call unit_test,union/$(t)_test,union)))
$(foreach t,branch/branch_probe state/stuck_server state/fuse_connection sys/task_syscall,\
  $(eval $(call unit_test,union/$(t)_test,union,union/testkit/hang_kit.c)))
$(eval $(call unit_test,union/change/replay_test,union,union/testkit/replay_acts.c union/testkit/replay_tree.c))
$(foreach t,view/dir_change change/dir_times migrate/intent_recover\
  migrate/relocate change/remove_dir change/rename_crash view/subdirs,\
  $(eval $(call unit_test,union/$(t)_test,union,union/testkit/branches_kit.c)))
$(foreach t,state/reply_cache state/reply_cache_kill,\
  $(eval $(call unit_test,union/$(t)_test,union,union/testkit/reply_cache_kit.c)))
$(eval $(call fuzzer,union/control/control_proto_fuzz,union/control/control_proto.c \
  union/config/branch_spec.c base/error.c base/size.c))
$(eval $(call fuzzer,union/recover/saved_nodes_fuzz,union/recover/saved_nodes_file.c \
  base/wire/crc32c.c,-lisal))
$(eval $(call fuzzer,union/config/options_fuzz,union/config/options.c union/config/options_branches.c \
  union/config/options_mergerfs.c union/config/branch_spec.c union/config/mount_words.c \
  union/sys/inode_number.c union/config/policy.c union/config/policy_set.c base/clock.c \
  base/error.c base/file.c base/log.c base/size.c))
$(eval $(call fuzzer,union/state/reply_cache_fuzz,union/state/reply_cache_slots.c))
SYSTEM_TESTS += tests/system/union.sh tests/system/union_data.sh tests/system/union_immutable.sh tests/system/union_folding.sh tests/system/union_survive.sh tests/system/union_live.sh \
  tests/system/union_drain.sh tests/system/union_hang.sh tests/system/union_names.sh \
  tests/system/union_times.sh tests/system/union_attrs.sh tests/system/union_mount.sh tests/system/union_strict.sh tests/system/union_limits.sh tests/system/union_room.sh tests/system/union_owner.sh

# mount(8) and fstab: type fuse.trib-union. It looks in /sbin only.
MOUNTHELPERDIR ?= /sbin
INSTALLS += install-mount-helper
.PHONY: install-mount-helper
install-mount-helper:
	install -d $(DESTDIR)$(MOUNTHELPERDIR)
	ln -sf $(SBINDIR)/trib-union \
	  $(DESTDIR)$(MOUNTHELPERDIR)/mount.fuse.trib-union
