# What `make install` puts beside the programs.
INSTALLS += install-units
.PHONY: install-units
install-units:
	install -d $(DESTDIR)$(UNITDIR)
	sed 's|@SBINDIR@|$(SBINDIR)|' deploy/systemd/blockd.service \
	  >$(DESTDIR)$(UNITDIR)/blockd.service
	chmod 644 $(DESTDIR)$(UNITDIR)/blockd.service

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
