$(eval $(call library,rpc,\
  rpc/rpc_address.c rpc/rpc_arena.c rpc/rpc_call.c rpc/rpc_cert.c rpc/rpc_channel.c rpc/rpc_client.c \
  rpc/rpc_code.c rpc/rpc_core.c rpc/rpc_lock.c rpc/rpc_method.c \
  rpc/rpc_pool.c rpc/rpc_server.c rpc/rpc_text.c rpc/rpc_tls.c rpc/http.c,\
  grpc libprotobuf-c libmicrohttpd gnutls,base))
$(eval $(call unit_test,rpc/rpc_server_test,rpc proto base,rpc/rpc_test_kit.c))
$(eval $(call unit_test,rpc/rpc_stream_test,rpc proto base,rpc/rpc_test_kit.c))
$(eval $(call unit_test,rpc/rpc_tls_test,rpc proto base,rpc/rpc_test_kit.c))
$(eval $(call unit_test,rpc/rpc_hostile_test,rpc proto base,rpc/rpc_test_kit.c))
$(eval $(call unit_test,rpc/rpc_crash_test,rpc proto base,rpc/rpc_test_kit.c))
$(eval $(call unit_test,rpc/rpc_address_test,rpc base))
$(eval $(call unit_test,rpc/rpc_text_test,rpc base))

$(eval $(call fuzzer,rpc/rpc_address_fuzz,rpc/rpc_address.c base/error.c))
$(eval $(call fuzzer,rpc/rpc_text_fuzz,rpc/rpc_text.c))
