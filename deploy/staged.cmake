# Run by CPack when the files of the packages are together and not packed yet: what Debian expects beyond a plain
# installation, and the modes of /etc/rung.
if(NOT CPACK_GENERATOR STREQUAL DEB)
  return()
endif()
set(staged ${CPACK_TEMPORARY_DIRECTORY}/rung)
set(owner_all OWNER_READ OWNER_WRITE OWNER_EXECUTE)

# Secrets of all kinds lie there; the scripts of the packages give it to the group rung.
file(CHMOD ${staged}/etc/rung PERMISSIONS ${owner_all} GROUP_READ GROUP_EXECUTE)

# Without it CPack makes a package that depends on no library.
find_program(RUNG_SHLIBDEPS dpkg-shlibdeps)
if(NOT RUNG_SHLIBDEPS)
  message(FATAL_ERROR "dpkg-shlibdeps is missing: apt-get install dpkg-dev")
endif()

# dpkg-shlibdeps finds the programs with it.
find_program(RUNG_FILE file)
if(NOT RUNG_FILE)
  message(FATAL_ERROR "file is missing: apt-get install file")
endif()

function(gzip)
  execute_process(COMMAND gzip -9 --no-name ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Policy 12.1, 12.5, 12.7. The full text of Apache-2.0 is in /usr/share/common-licenses.
set(doc ${staged}/usr/share/doc/rung)
file(GLOB pages ${staged}/usr/share/man/man1/*.1)
string(TIMESTAMP RUNG_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH counts
set(RUNG_PACKAGE_VERSION ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
configure_file(${CPACK_RUNG_SOURCE}/debian/changelog.in ${doc}/changelog.Debian @ONLY NO_SOURCE_PERMISSIONS)
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
gzip(${pages} ${doc}/changelog.Debian ${doc}/changelog)
configure_file(${CPACK_RUNG_SOURCE}/debian/copyright ${doc}/copyright COPYONLY NO_SOURCE_PERMISSIONS)
file(REMOVE ${doc}/LICENSE)
configure_file(${CPACK_RUNG_SOURCE}/debian/lintian-overrides ${staged}/usr/share/lintian/overrides/rung COPYONLY NO_SOURCE_PERMISSIONS)
# It depends on rung of the same version.
file(MAKE_DIRECTORY ${CPACK_TEMPORARY_DIRECTORY}/dbgsym/usr/share/doc)
file(CREATE_LINK rung ${CPACK_TEMPORARY_DIRECTORY}/dbgsym/usr/share/doc/rung-dbgsym SYMBOLIC)

# Debian's zsh looks here.
file(MAKE_DIRECTORY ${staged}/usr/share/zsh/vendor-completions)
file(RENAME ${staged}/usr/share/zsh/site-functions/_rung ${staged}/usr/share/zsh/vendor-completions/_rung)
file(REMOVE_RECURSE ${staged}/usr/share/zsh/site-functions)
