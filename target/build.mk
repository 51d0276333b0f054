$(eval $(call library,target,\
  target/export_table.c target/initiators.c target/listener.c \
  target/nbd_conn.c target/nbd_handshake.c target/nbd_io.c target/nbd_proto.c \
  target/nbd_send.c target/nbd_session.c target/target.c,,base))
$(eval $(call test_helper,target/nbd_serve_main,target))
$(eval $(call test_helper,target/nbd_load_main,base))
