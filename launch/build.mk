$(eval $(call library,launch,\
  launch/launch_client.c launch/launch_proto.c launch/fd_store_message.c launch/fd_store_server.c launch/launcher_mirror.c,,base))
$(eval $(call program,trib-launch,\
  launch/launch_handle.c launch/launch_server.c launch/launch_socket.c launch/launch_store.c launch/main.c,launch base))
$(eval $(call unit_test,launch/launch_proto_test,launch base))
$(eval $(call unit_test,launch/launch_server_test,launch base,\
  launch/launch_handle.c launch/launch_server.c launch/launch_socket.c launch/launch_store.c))
$(eval $(call unit_test,launch/fd_store_server_test,launch base))
$(eval $(call fuzzer,launch/launch_proto_fuzz,launch/launch_proto.c \
  base/wire/cursor.c base/error.c))
SYSTEM_TESTS += tests/system/launch.sh tests/system/launch_store.sh tests/system/launch_device.sh
