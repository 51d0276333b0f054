$(eval $(call library,nbdclient,\
  initiator/nbd_client.c initiator/nbd_connect.c,,base))

$(eval $(call library,initiator,\
  initiator/device.c initiator/initiator.c initiator/iscsi_record.c \
  initiator/iscsi_sysfs.c initiator/loopdev.c \
  initiator/nbd_netlink.c initiator/record.c initiator/transport.c \
  initiator/transport_fuse.c initiator/transport_iscsi.c \
  initiator/transport_loop.c \
  initiator/transport_nbd.c,libnl-3.0 libnl-genl-3.0,nbdclient launch base))

$(eval $(call program,trib-nbd,\
  initiator/nbd_connector.c initiator/nbd_fuse.c initiator/nbd_fuse_buffers.c \
  initiator/nbd_fuse_main.c initiator/nbd_link.c,nbdclient base,fuse3))

$(eval $(call test_helper,initiator/initiator_call_main,initiator base,))
$(eval $(call unit_test,initiator/nbd_client_test,nbdclient base))
$(eval $(call unit_test,initiator/iscsi_record_test,initiator base))
$(eval $(call unit_test,initiator/iscsi_sysfs_test,initiator base))
$(eval $(call unit_test,initiator/record_test,initiator base))
$(eval $(call unit_test,initiator/transport_test,initiator base))
$(eval $(call fuzzer,initiator/nbd_client_fuzz,\
  initiator/nbd_client.c base/clock.c base/wire/cursor.c base/error.c base/file.c \
  base/log.c))
$(eval $(call fuzzer,initiator/record_fuzz,\
  initiator/record.c base/clock.c base/error.c base/file.c base/ident.c \
  base/log.c))
SYSTEM_TESTS += tests/system/initiator.sh tests/system/initiator_nbd_kernel.sh
$(eval $(call unit_test,initiator/nbd_link_test,nbdclient base,\
  initiator/nbd_connector.c initiator/nbd_link.c))
