$(eval $(call library,cli,cli/command/attach_cmd.c cli/command/check_cmd.c cli/text/cli.c cli/commands.c \
  cli/command/doctor_cmd.c cli/doctor/doctor.c cli/doctor/doctor_cluster.c cli/doctor/doctor_host.c cli/commands_extent.c cli/commands_node.c cli/commands_union.c cli/commands_volume.c \
  cli/complete_cmd.c cli/command/each_node.c cli/command/extent_cmd.c cli/command/extent_copy_cmd.c cli/command/extent_stats_cmd.c cli/help.c cli/text/json.c cli/command/mount_cmd.c \
  cli/command/node_cmd.c cli/command/node_register_cmd.c cli/command/pool_cmd.c cli/text/progress.c cli/text/reference.c \
  cli/command/snapshot_cmd.c cli/command/snapshot_json.c \
  cli/command/status_cmd.c cli/text/table.c cli/command/trim_cmd.c cli/command/union_change_cmd.c cli/command/union_cmd.c cli/command/volume_cmd.c cli/command/volume_layout.c \
  cli/command/volume_copy_cmd.c,json-c,volume))
$(eval $(call program,trib,cli/main.c,cli))
$(eval $(call unit_test,cli/text/reference_test,cli))
$(eval $(call unit_test,cli/text/table_test,cli))
$(eval $(call unit_test,cli/commands_test,cli))
$(eval $(call unit_test,cli/doctor/doctor_test,cli))
SYSTEM_TESTS += tests/system/trib.sh
