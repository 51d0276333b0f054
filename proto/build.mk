# Generated code lands in gen/proto, next to no source of ours.
PROTOS := proto/blockd.proto proto/csi.proto proto/csi_state.proto \
          proto/well_known.proto
GENERATED += $(PROTOS:%.proto=$(OUT)/gen/%.pb-c.h)

$(OUT)/gen/%.pb-c.c $(OUT)/gen/%.pb-c.h &: %.proto
	$(say) PROTO $<
	$(Q)mkdir -p $(OUT)/gen
	$(Q)protoc-c --c_out=$(OUT)/gen $<

$(eval $(call library,proto,$(PROTOS:%.proto=%.pb-c.c),libprotobuf-c,))
.SECONDARY: $(PROTOS:%.proto=$(OUT)/gen/%.pb-c.c)
