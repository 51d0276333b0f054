$(eval $(call library,cli,cli/attach_cmd.c cli/check_cmd.c cli/cli.c cli/commands.c \
  cli/commands_extent.c cli/commands_node.c cli/commands_union.c cli/commands_volume.c \
  cli/complete_cmd.c cli/each_node.c cli/extent_cmd.c cli/extent_copy_cmd.c cli/extent_stats_cmd.c cli/help.c cli/json.c cli/mount_cmd.c \
  cli/node_cmd.c cli/node_register_cmd.c cli/pool_cmd.c cli/progress.c cli/reference.c \
  cli/snapshot_cmd.c cli/snapshot_json.c \
  cli/status_cmd.c cli/table.c cli/trim_cmd.c cli/union_change_cmd.c cli/union_cmd.c cli/volume_cmd.c \
  cli/volume_copy_cmd.c,json-c,volume))
$(eval $(call program,trib,cli/main.c,cli))
$(eval $(call unit_test,cli/reference_test,cli))
$(eval $(call unit_test,cli/table_test,cli))
$(eval $(call unit_test,cli/commands_test,cli))
SYSTEM_TESTS += tests/system/trib.sh
