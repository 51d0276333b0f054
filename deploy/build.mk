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
