# At installation: writes the units for the prefix that is installed to, which only now is known (`cmake --install --prefix`,
# CPack). Set by deploy/CMakeLists.txt: source, work, and bindir, docdir, unitdir below the prefix.
set(RUNG_BINDIR ${CMAKE_INSTALL_PREFIX}/${bindir})
set(RUNG_DOCDIR ${CMAKE_INSTALL_PREFIX}/${docdir})

# Those of an earlier installation, which may have been root's.
file(REMOVE ${work}/rung.service ${work}/rung@.service)

set(RUNG_UNIT_NOTE "")
set(RUNG_CONFIG_NAME rung)
set(RUNG_UNIT_ENVIRONMENT "")
set(RUNG_UNIT_EXAMPLE rung.service)
configure_file(${source}/rung.service.in ${work}/rung.service @ONLY)

set(RUNG_UNIT_NOTE " (%i)")
set(RUNG_CONFIG_NAME %i)
set(RUNG_UNIT_ENVIRONMENT "# %i in the config's `node:`.\nEnvironment=RUNG_INSTANCE=%i")
set(RUNG_UNIT_EXAMPLE rung@NAME.service)
configure_file(${source}/rung.service.in ${work}/rung@.service @ONLY)

file(INSTALL ${work}/rung.service ${work}/rung@.service DESTINATION ${CMAKE_INSTALL_PREFIX}/${unitdir})
