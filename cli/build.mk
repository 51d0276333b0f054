$(eval $(call library,cli,cli/command/attach_cmd.c cli/command/check_cmd.c cli/text/cli.c cli/commands.c \
  cli/command/doctor_cmd.c cli/doctor/doctor.c cli/doctor/doctor_cluster.c cli/doctor/doctor_host.c cli/commands_cluster.c cli/setup/cluster_cmd.c cli/setup/pki_cmd.c \
  cli/cluster/host_files.c cli/cluster/invitation.c cli/pki/pki.c cli/pki/pki_cert.c cli/commands_extent.c cli/commands_node.c cli/commands_union.c cli/commands_volume.c \
  cli/complete_cmd.c cli/command/each_node.c cli/command/extent_cmd.c cli/command/extent_copy_cmd.c cli/command/extent_stats_cmd.c cli/help.c cli/live/events_cmd.c cli/live/events.c cli/live/jobs.c cli/text/json.c cli/command/mount_cmd.c cli/command/move_cmd.c \
  cli/command/node_cmd.c cli/command/node_register_cmd.c cli/command/orphans_cmd.c cli/command/pool_cmd.c cli/text/progress.c cli/text/reference.c \
  cli/command/snapshot_cmd.c cli/command/snapshot_json.c \
  cli/command/rebalance_cmd.c cli/live/status_cmd.c cli/live/top.c cli/live/top_cmd.c cli/text/table.c cli/command/trim_cmd.c cli/command/union_change_cmd.c cli/command/union_cmd.c cli/command/volume_cmd.c cli/command/volume_layout.c \
  cli/command/volume_copy_cmd.c,json-c gnutls,volume))
$(eval $(call program,trib,cli/main.c,cli))
$(eval $(call unit_test,cli/text/reference_test,cli))
$(eval $(call unit_test,cli/text/table_test,cli))
$(eval $(call unit_test,cli/commands_test,cli))
$(eval $(call unit_test,cli/doctor/doctor_test,cli))
$(eval $(call unit_test,cli/live/events_test,cli))
$(eval $(call unit_test,cli/live/jobs_test,cli))
$(eval $(call unit_test,cli/live/top_test,cli))
$(eval $(call unit_test,cli/pki/pki_test,cli))
$(eval $(call unit_test,cli/cluster/host_files_test,cli))
$(eval $(call unit_test,cli/cluster/invitation_test,cli))
$(eval $(call fuzzer,cli/cluster/invitation_fuzz,cli/cluster/invitation.c cli/pki/pki.c \
  volume/record/json_scan.c volume/record/label.c base/clock.c base/error.c base/file.c \
  base/uuid_name.c base/log.c,-ljson-c -lgnutls))
SYSTEM_TESTS += tests/system/trib.sh tests/system/first_cluster.sh
