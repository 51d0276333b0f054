$(eval $(call library,nbdparts,\
  initiator/device/parts.c initiator/device/ublk_device.c,,base))

$(eval $(call library,initiator,\
  initiator/attach_exchange.c initiator/attach_joined.c initiator/attach_parts.c initiator/attach_request.c initiator/attach_single.c initiator/attach_state.c initiator/device/device.c initiator/initiator.c initiator/attach_top.c initiator/iscsi/iscsi_record.c \
  initiator/iscsi/iscsi_sysfs.c initiator/device/loopdev.c \
  initiator/nbd/nbd_netlink.c initiator/device/joined_table.c initiator/device/record.c initiator/device/top_device.c initiator/transport/transport.c \
  initiator/transport/nbd_process.c initiator/transport/transport_fuse.c \
  initiator/transport/transport_iscsi.c initiator/transport/transport_loop.c \
  initiator/transport/transport_nbd.c initiator/transport/transport_ublk.c,libnl-3.0 libnl-genl-3.0,nbdparts launch dm base))

$(eval $(call program,trib-nbd,\
  initiator/nbd/nbd_connector.c initiator/nbd/nbd_fuse.c initiator/nbd/nbd_fuse_buffers.c \
  initiator/nbd/nbd_fuse_memory.c initiator/nbd/nbd_fuse_ops.c initiator/nbd/nbd_stored.c \
  initiator/nbd/nbd_durable.c initiator/nbd/nbd_fuse_main.c initiator/nbd/nbd_link.c \
  initiator/nbd/nbd_parts.c initiator/nbd/nbd_survive.c initiator/nbd/nbd_ublk.c,nbdparts launch base,fuse3))

$(eval $(call test_helper,initiator/initiator_call_main,initiator base,))
$(eval $(call unit_test,initiator/iscsi/iscsi_record_test,initiator base))
$(eval $(call unit_test,initiator/iscsi/iscsi_sysfs_test,initiator base))
$(eval $(call unit_test,initiator/device/joined_table_test,initiator base))
$(eval $(call unit_test,initiator/device/parts_test,nbdparts base))
$(eval $(call unit_test,initiator/device/record_test,initiator base))
$(eval $(call unit_test,initiator/device/top_device_test,initiator base,\
  base/testkit/mapper_stand.c))
$(eval $(call unit_test,initiator/transport/transport_test,initiator base))
$(eval $(call fuzzer,initiator/device/record_fuzz,\
  initiator/device/record.c base/clock.c base/error.c base/file.c base/uuid_name.c \
  base/log.c))
SYSTEM_TESTS += tests/system/initiator.sh tests/system/initiator_nbd_kernel.sh tests/system/initiator_ublk.sh
$(eval $(call unit_test,initiator/nbd/nbd_link_test,nbdparts base,\
  initiator/nbd/nbd_connector.c initiator/nbd/nbd_durable.c initiator/nbd/nbd_link.c))
$(eval $(call unit_test,initiator/nbd/nbd_survive_test,nbdparts base,\
  initiator/nbd/nbd_connector.c initiator/nbd/nbd_durable.c initiator/nbd/nbd_link.c initiator/nbd/nbd_parts.c initiator/nbd/nbd_survive.c))
