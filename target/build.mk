TARGET_NBD := target/export/export_stats.c target/nbd/nbd_catch_up.c target/nbd/nbd_conn.c target/nbd/nbd_export_open.c target/nbd/nbd_handshake.c \
  target/nbd/nbd_io.c target/nbd/nbd_proto.c \
  target/nbd/nbd_session.c target/net/tls.c
SYSTEM_TESTS += tests/system/nbd_tls.sh tests/system/wire_gone.sh
WIRE_TESTS += tests/system/nbd_wire.sh tests/system/nbd_tls.sh \
  tests/system/nbd_tester.sh tests/system/nbd_watch.sh tests/system/wire_gone.sh
SYSTEM_TESTS += tests/system/nbd_tester.sh

SYSTEM_TESTS += tests/system/iscsi_wire.sh tests/system/iscsi_conform.sh
WIRE_TESTS += tests/system/iscsi_wire.sh tests/system/iscsi_conform.sh
TARGET_ISCSI := \
  target/iscsi/iscsi_acl.c target/iscsi/iscsi_chap.c target/iscsi/iscsi_data_out.c target/iscsi/iscsi_conn.c \
  target/iscsi/iscsi_count.c target/iscsi/iscsi_encode.c target/iscsi/iscsi_io.c \
  target/iscsi/iscsi_keys.c target/iscsi/iscsi_login.c target/iscsi/iscsi_logins.c \
  target/iscsi/iscsi_manage.c target/export/iscsi_name.c target/iscsi/iscsi_split_io.c target/iscsi/iscsi_proto.c \
  target/iscsi/iscsi_unsolicited.c \
  target/iscsi/iscsi_session.c target/iscsi/iscsi_session_open.c target/iscsi/iscsi_table.c target/iscsi/iscsi_text.c

TARGET_SCSI := \
  target/scsi/command/scsi_cache.c target/scsi/command/scsi_command.c target/scsi/command/scsi_compare.c target/scsi/command/scsi_copy.c \
  target/scsi/command/scsi_copy_decode.c target/scsi/command/scsi_copy_piece.c target/scsi/command/scsi_copy_results.c \
  target/scsi/command/scsi_inquiry.c target/scsi/command/scsi_maintenance.c target/scsi/command/scsi_medium.c \
  target/scsi/command/scsi_mode.c target/scsi/scsi_pr.c target/scsi/command/scsi_pr_in.c target/scsi/scsi_pr_lost.c \
  target/scsi/command/scsi_pr_move.c target/scsi/command/scsi_pr_out.c target/scsi/scsi_pr_state.c \
  target/scsi/command/scsi_primary.c target/scsi/command/scsi_provision.c target/scsi/scsi_range.c \
  target/scsi/scsi_reserve.c target/scsi/command/scsi_reset.c target/scsi/command/scsi_rw.c target/scsi/scsi_sense.c \
  target/scsi/scsi_target.c target/scsi/command/scsi_dispatch.c target/scsi/scsi_task.c target/scsi/scsi_unit.c target/scsi/command/scsi_verify.c

TARGET_SERVERS := target/conn/conn.c target/conn/conn_buffer.c target/conn/conn_export.c \
  target/conn/conn_tls.c target/export/export_object.c target/export/export_table.c \
  target/export/export_use.c target/export/export_settle.c target/export/initiators.c \
  target/net/listener.c target/net/peer.c target/conn/receiver.c $(TARGET_ISCSI) $(TARGET_NBD) $(TARGET_SCSI) \
  target/target.c target/target_worker.c

# What a fuzzer compiles of base/ to have a loop and its devices.
FUZZ_BASE := \
  base/blockdev/blockdev.c base/blockdev/blockdev_ram.c base/clock.c base/wire/crc32c.c base/wire/cursor.c \
  base/error.c base/file.c base/loop/iobuf.c base/loop/iobuf_fixed.c base/loop/iobuf_huge.c \
  base/loop/iobuf_thp.c base/wire/chap_secrets.c base/log.c base/loop/loop.c base/loop/loop_io.c \
  base/loop/loop_recv.c base/loop/loop_round.c base/loop/loop_work.c base/process_stat.c base/unix_served.c

$(eval $(call library,target,$(TARGET_SERVERS),gnutls,base))
$(eval $(call test_helper,target/testkit/nbd_serve_main,target,,target/testkit/serve_kit.c))
$(eval $(call test_helper,target/testkit/iscsi_serve_main,target,,target/testkit/serve_kit.c))
$(eval $(call unit_test,target/export/export_table_test,target))
$(eval $(call unit_test,target/export/initiators_test,target))
$(eval $(call unit_test,target/nbd/nbd_proto_test,target))
$(foreach t,nbd/nbd_handshake nbd/nbd_session nbd/nbd_extended,$(eval $(call unit_test,target/$(t)_test,target,target/testkit/nbd_session_kit.c)))
$(eval $(call unit_test,target/export/export_stats_test,target))
$(eval $(call unit_test,target/conn/conn_buffer_test,target,base/testkit/loop_kit.c))
$(eval $(call unit_test,target/conn/receiver_test,target,base/testkit/loop_kit.c))
$(eval $(call fuzzer,target/nbd/nbd_session_fuzz,target/nbd/nbd_session.c \
  target/nbd/nbd_handshake.c target/nbd/nbd_proto.c base/wire/cursor.c base/error.c))
$(eval $(call unit_test,target/target_test,target,\
  target/testkit/slow_disk_kit.c target/testkit/target_test_kit.c))
$(eval $(call unit_test,target/nbd/nbd_resend_test,target,\
  target/testkit/target_test_kit.c))
$(eval $(call unit_test,target/target_grow_test,target,\
  target/testkit/target_test_kit.c))
$(eval $(call unit_test,target/target_blocked_test,target,\
  target/testkit/target_test_kit.c))
$(eval $(call unit_test,target/nbd/nbd_large_test,target,\
  target/testkit/target_test_kit.c))
$(eval $(call unit_test,target/iscsi/iscsi_split_io_test,target,\
  target/testkit/initiator_kit.c target/testkit/slow_disk_kit.c target/testkit/target_test_kit.c))
SYSTEM_TESTS += tests/system/nbd_wire.sh
$(foreach t,iscsi/iscsi_proto iscsi/iscsi_text iscsi/iscsi_chap iscsi/iscsi_login\
  iscsi/iscsi_table,$(eval $(call unit_test,target/$(t)_test,target)))
$(foreach t,iscsi/iscsi_session iscsi/iscsi_session_parts iscsi/iscsi_unsolicited,$(eval $(call unit_test,target/$(t)_test,target,target/testkit/iscsi_session_kit.c)))
$(foreach t,scsi/command/scsi_rw scsi/command/scsi_mode scsi/command/scsi_threshold scsi/scsi_range\
  scsi/command/scsi_copy,$(eval $(call unit_test,target/$(t)_test,target,target/testkit/scsi_test_kit.c)))
$(foreach t,scsi/command/scsi_pr scsi/scsi_pr_lost scsi/command/scsi_pr_move scsi/scsi_pr_state\
  scsi/scsi_reserve,$(eval $(call unit_test,target/$(t)_test,target,target/testkit/scsi_pr_test_kit.c \
  target/testkit/scsi_test_kit.c)))
$(eval $(call unit_test,target/scsi/scsi_race_test,target))
$(eval $(call fuzzer,target/scsi/scsi_task_fuzz,$(TARGET_SCSI) $(FUZZ_BASE),\
  -luring -lisal))
$(foreach t,nbd/nbd iscsi/iscsi,$(eval $(call fuzzer,target/$(t)_server_fuzz,\
  target/testkit/server_fuzz_kit.c $(TARGET_SERVERS) $(FUZZ_BASE),\
  -luring -lisal -lgnutls)))
$(eval $(call fuzzer,target/iscsi/iscsi_session_fuzz,\
  target/iscsi/iscsi_chap.c target/iscsi/iscsi_data_out.c target/iscsi/iscsi_encode.c \
  target/iscsi/iscsi_keys.c target/iscsi/iscsi_login.c target/export/iscsi_name.c target/iscsi/iscsi_proto.c \
  target/iscsi/iscsi_unsolicited.c target/iscsi/iscsi_session.c target/iscsi/iscsi_text.c base/wire/crc32c.c \
  base/wire/cursor.c base/error.c,-lgnutls -lisal))
$(eval $(call fuzzer,target/iscsi/iscsi_text_fuzz,target/iscsi/iscsi_keys.c \
  target/export/iscsi_name.c target/iscsi/iscsi_proto.c target/iscsi/iscsi_text.c base/wire/cursor.c \
  base/error.c))
