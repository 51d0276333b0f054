$(eval $(call library,csi,\
  csi/node/bind_mount.c csi/call/call.c csi/call/capability.c csi/config.c csi/controller/content_source.c csi/controller/controller.c \
  csi/controller/controller_modify.c csi/controller/controller_snapshot.c csi/controller/group_controller.c \
  csi/controller/snapshot.c csi/controller/snapshot_metadata.c \
  csi/controller/controller_capacity.c csi/controller/controller_expand.c csi/controller/controller_list.c \
  csi/controller/controller_publish.c \
  csi/controller/controller_validate.c csi/call/csi_check.c csi/call/csi_error.c csi/call/volume_lock.c \
  csi/call/csi_metrics.c csi/call/csi_pages.c csi/controller/capacity_publish.c csi/controller/observer.c \
  csi/call/csi_name.c csi/call/csi_text.c csi/identity.c csi/node/inline.c csi/node/node_info.c \
  csi/kata/kata_record.c csi/kata/kata_shim.c csi/call/kubernetes_key.c csi/node/timeout_call.c \
  csi/node/node_expand.c csi/node/node_group.c csi/node/node_inline.c \
  csi/node/node_publish.c csi/node/node_ensure_staged.c csi/node/publish_mount.c csi/node/node_stage.c \
  csi/node/node_state.c csi/node/node_trim.c csi/node/node_watch.c csi/call/parameters.c \
  csi/call/reply.c csi/call/request.c csi/service.c csi/heap_trim.c,json-c libcurl,volume rpc proto base))
$(eval $(call program,trib-csi,csi/main.c,csi))

$(eval $(call unit_test,csi/call/csi_wire_test,proto base))
$(eval $(call unit_test,csi/call/csi_check_test,csi))
$(eval $(call unit_test,csi/call/csi_name_test,csi))
$(eval $(call unit_test,csi/call/csi_error_test,csi))
$(eval $(call unit_test,csi/call/csi_metrics_test,csi,csi/testkit/csi_test_kit.c))
$(eval $(call unit_test,csi/identity_test,csi,csi/testkit/csi_test_kit.c))
$(eval $(call unit_test,csi/controller/controller_test,csi,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c csi/testkit/fake_node_copies.c \
  csi/testkit/controller_test_kit.c))
$(eval $(call unit_test,csi/controller/controller_create_test,csi,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c csi/testkit/fake_node_copies.c \
  csi/testkit/controller_test_kit.c))
$(eval $(call unit_test,csi/controller/controller_pairs_test,csi,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c csi/testkit/fake_node_copies.c \
  csi/testkit/controller_test_kit.c))
$(eval $(call unit_test,csi/controller/controller_expand_test,csi,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c csi/testkit/fake_node_copies.c \
  csi/testkit/controller_test_kit.c))
$(eval $(call unit_test,csi/controller/controller_publish_test,csi,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c csi/testkit/fake_node_copies.c \
  csi/testkit/controller_test_kit.c))
$(eval $(call unit_test,csi/controller/controller_list_test,csi,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c csi/testkit/fake_node_copies.c \
  csi/testkit/controller_test_kit.c))
$(eval $(call unit_test,csi/controller/controller_group_test,csi,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c csi/testkit/fake_node_copies.c \
  csi/testkit/controller_test_kit.c))
$(eval $(call unit_test,csi/controller/controller_snapshot_test,csi,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c csi/testkit/fake_node_copies.c \
  csi/testkit/controller_test_kit.c))
$(eval $(call unit_test,csi/controller/controller_capacity_test,csi,csi/testkit/csi_test_kit.c csi/testkit/fake_node.c csi/testkit/fake_node_copies.c \
  csi/testkit/controller_test_kit.c))
$(eval $(call unit_test,csi/node/node_state_test,csi))
$(eval $(call unit_test,csi/node/inline_test,csi))
$(eval $(call unit_test,csi/node/timeout_call_test,csi))
$(eval $(call unit_test,csi/node/node_group_test,csi))
$(eval $(call unit_test,csi/kata/kata_test,csi))
$(eval $(call unit_test,csi/heap_trim_test,csi))

$(eval $(call fuzzer,csi/call/csi_name_fuzz,csi/call/csi_name.c volume/record/label.c \
  base/clock.c base/error.c base/file.c base/uuid_name.c base/log.c))
$(eval $(call fuzzer,csi/kata/kata_shim_fuzz,csi/kata/kata_shim.c \
  base/clock.c base/error.c base/file.c base/log.c,-ljson-c -lcurl))
$(eval $(call fuzzer,csi/call/csi_check_fuzz,csi/call/csi_check.c csi/call/csi_text.c \
  base/clock.c base/error.c base/file.c base/log.c \
  $(BUILD)/gen/proto/csi.pb-c.c $(BUILD)/gen/proto/well_known.pb-c.c,-lprotobuf-c))

$(eval $(call test_helper,csi/testkit/csi_call_main,csi))
SYSTEM_TESTS += tests/system/csi.sh tests/system/csi_controllers.sh \
  tests/system/csi_copy.sh tests/system/csi_node.sh tests/system/csi_scale.sh
