$(eval $(call library,target,\
  target/export_table.c target/initiators.c target/listener.c \
  target/nbd_conn.c target/nbd_handshake.c target/nbd_io.c target/nbd_proto.c \
  target/nbd_send.c target/nbd_session.c target/scsi_command.c \
  target/scsi_inquiry.c target/scsi_primary.c target/scsi_range.c \
  target/scsi_reserve.c target/scsi_rw.c target/scsi_sense.c \
  target/scsi_target.c target/scsi_task.c target/scsi_unit.c \
  target/target.c,,base))
$(eval $(call test_helper,target/nbd_serve_main,target))
$(eval $(call unit_test,target/export_table_test,target))
$(eval $(call unit_test,target/initiators_test,target))
$(eval $(call unit_test,target/nbd_proto_test,target))
$(eval $(call unit_test,target/nbd_session_test,target))
$(eval $(call unit_test,target/nbd_extended_test,target))
$(eval $(call fuzzer,target/nbd_session_fuzz,target/nbd_session.c \
  target/nbd_handshake.c target/nbd_proto.c base/cursor.c base/error.c))
$(eval $(call unit_test,target/target_test,target,target/target_test_kit.c))
$(eval $(call unit_test,target/target_grow_test,target,\
  target/target_test_kit.c))
SYSTEM_TESTS += tests/system/nbd_wire.sh
