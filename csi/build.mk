$(eval $(call unit_test,csi/csi_wire_test,proto base))
