$(eval $(call library,union,\
  union/announce.c union/aside.c union/branch.c union/branch_spec.c union/bury.c union/clone_dir.c \
  union/control.c union/control_client.c union/control_proto.c \
  union/control_status.c union/dir_fd.c union/handle.c union/live_add.c \
  union/inode_number.c union/intent.c union/intent_recover.c union/lookup.c union/merge.c union/mount.c \
  union/node.c union/ops.c union/ops_attr.c union/ops_dir.c union/ops_io.c \
  union/ops_lookup.c union/ops_name.c union/ops_open.c union/ops_rename.c \
  union/ops_xattr.c union/options.c union/passthrough.c union/place.c \
  union/policy.c union/rename_dir.c union/rename_exchange.c union/rename_parts.c \
  union/request.c union/serve.c union/unionfs.c,fuse3 json-c,base))
$(eval $(call program,trib-union,union/main.c,union))
$(eval $(call test_helper,union/outcomes,base,))
$(eval $(call test_helper,union/random_io,base,))
$(foreach t,branch control_proto inode_number intent merge node options policy request,\
  $(eval $(call unit_test,union/$(t)_test,union)))
$(eval $(call fuzzer,union/control_proto_fuzz,union/control_proto.c \
  union/branch_spec.c base/error.c))
SYSTEM_TESTS += tests/system/union.sh
