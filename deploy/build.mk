# What `make install` puts beside the programs.
INSTALLS += install-units
.PHONY: install-units
install-units:
	install -d $(DESTDIR)$(UNITDIR)
	for unit in blockd.service trib-launch.service tributary-node.service \
	  tributary-scrub.service tributary-scrub.timer \
	  tributary-trim.service tributary-trim.timer; do \
	  sed 's|@SBINDIR@|$(SBINDIR)|' deploy/systemd/$$unit \
	    >$(DESTDIR)$(UNITDIR)/$$unit && \
	  chmod 644 $(DESTDIR)$(UNITDIR)/$$unit || exit 1; \
	done

# Keeps other programs of a host off our devices. udevd reads it by itself.
INSTALLS += install-udev
.PHONY: install-udev
install-udev:
	install -d $(DESTDIR)$(UDEVDIR)
	install -m 644 deploy/udev/59-tributary.rules $(DESTDIR)$(UDEVDIR)

INSTALLS += install-completion
.PHONY: install-completion
install-completion:
	install -d $(DESTDIR)$(COMPDIR)
	install -m 644 deploy/completion/trib.bash $(DESTDIR)$(COMPDIR)/trib

# All programs as a container image, by whichever builder there is.
#   make image IMAGE=NAME:TAG IMAGE_FLAGS="--platform linux/arm64"
#   IMAGE_FLAGS="--build-arg BASE=IMAGE"  another Debian 12 to start from
IMAGE       ?= tributary:$(VERSION)
IMAGE_FLAGS ?=
.PHONY: image
image:
	$(Q)builder=$$(command -v buildah || command -v podman || \
	  command -v docker) || { \
	  echo 'make image: needs buildah, podman or docker' >&2; exit 1; }; \
	"$$builder" build -t $(IMAGE) -f deploy/Containerfile $(IMAGE_FLAGS) .

# What a cluster is given, for looking at or for `kubectl apply -f`: rendered
# and checked. 77: all is right, but there is no helm here to render the chart.
.PHONY: manifests
manifests:
	$(Q)tests/manifests/render $(BUILD)/manifests || [ $$? = 77 ]

# Which sidecars of Kubernetes have a newer version: needs the Internet.
.PHONY: sidecars
sidecars:
	$(Q)deploy/sidecar-versions

SYSTEM_TESTS += tests/system/manifests.sh
KUBE_TESTS   += tests/kube/pods.sh
