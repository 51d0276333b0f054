$(eval $(call library,union,\
  union/again.c union/announce.c union/aside.c union/atime.c union/attrs.c union/backing_lost.c union/branch.c \
  union/branch_health.c union/branch_identity.c union/branch_lock.c union/branch_probe.c union/birth.c union/branch_spec.c union/branch_try.c \
  union/bury.c union/caller.c union/clone_dir.c union/control.c union/control_client.c \
  union/control_command.c union/control_proto.c union/control_status.c \
  union/copy_data.c union/dir_change.c union/dir_fd.c union/dir_listing.c union/dir_offset.c union/dir_parts.c union/dir_read.c union/dir_turn.c \
  union/dot_union.c union/drain.c union/drain_dir.c union/drain_walk.c union/durable.c union/empty_dir.c union/dying.c union/dying_servers.c \
  union/explain.c union/file_in_use.c union/find_names.c union/folding.c union/full.c union/fuse_connection.c \
  union/gate.c union/handle.c union/hanging.c union/heal.c union/held.c union/holder.c union/immutable.c \
  union/in_call.c union/inode_number.c union/intent.c union/intent_recover.c union/keep.c union/lifeline.c union/limits.c \
  union/live_add.c union/live_remove.c union/live_set.c union/lookup.c \
  union/merge.c union/met.c union/mount.c union/mount_strict.c union/mount_words.c union/mounted.c union/move.c union/move_check.c union/move_copy.c union/moving.c union/named.c union/names.c union/names_set.c \
  union/node.c union/node_bury.c union/node_copies.c union/node_index.c union/node_lost.c union/node_quiet.c \
  union/node_restore.c union/node_sleep.c \
  union/node_slots.c union/node_unused.c union/nudge.c union/number_keep.c union/once.c union/once_slots.c union/pending_names.c \
  union/open_dir.c union/open_file.c union/open_record.c union/open_table.c union/owner.c union/ops.c union/ops_attr.c \
  union/ops_dir.c union/ops_io.c union/ops_lookup.c union/ops_name.c \
  union/ops_open.c union/ops_rename.c union/ops_xattr.c union/options.c \
  union/options_branches.c union/options_mergerfs.c union/pace.c union/passthrough.c \
  union/place.c union/policy.c union/policy_record.c union/policy_set.c union/quietly.c \
  union/relocate.c union/remount.c union/remounted.c union/remove_dir.c union/rename_dir.c \
  union/rename_exchange.c union/rename_hits.c union/rename_parts.c union/request.c union/request_use.c union/room.c \
  union/saved_nodes.c union/saved_nodes_file.c union/search.c union/serve.c union/service.c union/settings.c union/state.c union/state_note.c union/statx.c union/subdirs.c union/survey.c \
  union/survive.c union/trim.c union/unfinished.c union/unionfs.c union/unionfs_life.c union/unseen.c,fuse3 json-c,base))
$(eval $(call program,trib-union,union/main.c,union))
$(eval $(call test_helper,union/outcomes,base,))
$(eval $(call test_helper,union/random_io,base,))
$(foreach t,branch branch_health control_proto dir_fd dir_offset gate handle hanging held holder inode_number intent keep limits live_remove merge met mounted names node node_lost node_restore open_table options pace pending_names policy policy_record policy_set quietly request statx survive unionfs unseen,\
  $(eval $(call unit_test,union/$(t)_test,union)))
$(foreach t,branch_probe dying fuse_connection in_call,\
  $(eval $(call unit_test,union/$(t)_test,union,union/hang_kit.c)))
$(eval $(call unit_test,union/again_test,union,union/again_acts.c union/again_tree.c))
$(foreach t,dir_change dir_times intent_recover relocate remove_dir rename_crash subdirs,\
  $(eval $(call unit_test,union/$(t)_test,union,union/branches_kit.c)))
$(foreach t,once once_kill,\
  $(eval $(call unit_test,union/$(t)_test,union,union/once_kit.c)))
$(eval $(call fuzzer,union/control_proto_fuzz,union/control_proto.c \
  union/branch_spec.c base/error.c base/size.c))
$(eval $(call fuzzer,union/saved_nodes_fuzz,union/saved_nodes_file.c \
  base/wire/crc32c.c,-lisal))
$(eval $(call fuzzer,union/options_fuzz,union/options.c union/options_branches.c \
  union/options_mergerfs.c union/branch_spec.c union/mount_words.c \
  union/inode_number.c union/policy.c union/policy_set.c base/clock.c \
  base/error.c base/file.c base/log.c base/size.c))
$(eval $(call fuzzer,union/once_fuzz,union/once_slots.c))
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
