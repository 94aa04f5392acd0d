# Packages, made in the build folder of the release: `cpack -G DEB` or `cpack -G RPM`, in build/release/packages. Two of
# each: rung, and its debug symbols.
set(CPACK_PACKAGE_NAME rung)
set(CPACK_PACKAGE_VENDOR "The Rung authors")
set(RUNG_PACKAGE_CONTACT "The Rung authors <maintainers@rung.invalid>" CACHE STRING "Maintainer of the packages: Name <address>")
set(CPACK_PACKAGE_CONTACT ${RUNG_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "durable retries for RabbitMQ")
set(CPACK_PACKAGE_DESCRIPTION
"A sidecar that takes messages which a consumer could not handle, returns them
to their queue after the delays of a ladder (5 s, 30 s, 1 min ... 2 d), and
records every step in MySQL or MariaDB. It also delivers delayed messages.")
set(CPACK_OUTPUT_FILE_PREFIX packages)
set(CPACK_VERBATIM_VARIABLES ON)
# With DESTDIR, because /etc is not below the prefix.
set(CPACK_SET_DESTDIR ON)
set(CPACK_PACKAGE_RELOCATABLE OFF)
set(CPACK_INSTALL_PREFIX /usr)
# Not the umask of whoever builds it.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/staged.cmake)
set(CPACK_RUNG_SOURCE ${CMAKE_CURRENT_SOURCE_DIR})

set(CPACK_COMPONENTS_ALL runtime manual doc monitoring systemd config debug)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
foreach(component runtime manual doc monitoring systemd config)
  string(TOUPPER ${component} upper)
  set(CPACK_COMPONENT_${upper}_GROUP rung)
endforeach()
set(CPACK_COMPONENT_DEBUG_GROUP dbgsym)
set(CPACK_COMPONENT_GROUP_RUNG_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION})
set(CPACK_COMPONENT_GROUP_DBGSYM_DESCRIPTION "Debug symbols of the program rung, for gdb, addr2line and perf.")

# --- Debian
set(scripts ${CMAKE_CURRENT_SOURCE_DIR}/debian)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_RUNG_PACKAGE_NAME rung)
set(CPACK_DEBIAN_RUNG_PACKAGE_SECTION net)
set(CPACK_DEBIAN_RUNG_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_RUNG_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION})
# The libraries by dpkg-shlibdeps. systemd-sysusers makes the user; windows of the week need the time zones.
set(CPACK_DEBIAN_RUNG_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNG_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers | systemd-sysusers, init-system-helpers (>= 1.52), tzdata")
set(CPACK_DEBIAN_RUNG_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_RUNG_PACKAGE_SUGGESTS "rabbitmq-server, default-mysql-server, prometheus")
set(CPACK_DEBIAN_RUNG_PACKAGE_CONTROL_EXTRA ${scripts}/postinst ${scripts}/prerm ${scripts}/postrm ${scripts}/conffiles)

set(CPACK_DEBIAN_DBGSYM_PACKAGE_NAME rung-dbgsym)
set(CPACK_DEBIAN_DBGSYM_PACKAGE_SECTION debug)
set(CPACK_DEBIAN_DBGSYM_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_DBGSYM_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DBGSYM_DESCRIPTION ${CPACK_COMPONENT_GROUP_DBGSYM_DESCRIPTION})
set(CPACK_DEBIAN_DBGSYM_PACKAGE_DEPENDS "rung (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

# --- RPM. Libraries by rpmbuild: a package fits the distribution that it was built on.
set(scripts ${CMAKE_CURRENT_SOURCE_DIR}/rpm)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_MAIN_COMPONENT rung)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE 1)
set(CPACK_RPM_PACKAGE_LICENSE Apache-2.0)
set(CPACK_RPM_PACKAGE_GROUP "System Environment/Daemons")
set(CPACK_RPM_RUNG_PACKAGE_REQUIRES "systemd, tzdata")
set(CPACK_RPM_RUNG_PACKAGE_REQUIRES_PRE "shadow-utils")
set(CPACK_RPM_RUNG_PRE_INSTALL_SCRIPT_FILE ${scripts}/pre)
set(CPACK_RPM_RUNG_POST_INSTALL_SCRIPT_FILE ${scripts}/post)
set(CPACK_RPM_RUNG_PRE_UNINSTALL_SCRIPT_FILE ${scripts}/preun)
set(CPACK_RPM_RUNG_POST_UNINSTALL_SCRIPT_FILE ${scripts}/postun)
set(CPACK_RPM_RUNG_USER_FILELIST "%dir %attr(0750,root,rung) /etc/rung" "%config(noreplace) %attr(0640,root,rung) /etc/rung/rung.yaml")
set(CPACK_RPM_DBGSYM_PACKAGE_NAME rung-debugsymbols)
set(CPACK_RPM_DBGSYM_PACKAGE_AUTOREQPROV OFF)
# Stripped already; rpmbuild's own debuginfo package would be empty.
set(CPACK_RPM_SPEC_MORE_DEFINE "%define debug_package %{nil}")
# No time and no name of the building machine (docs/releasing.md).
string(APPEND CPACK_RPM_SPEC_MORE_DEFINE "\n%define _buildhost reproducible\n%define use_source_date_epoch_as_buildtime 1\n"
  "%define clamp_mtime_to_source_date_epoch 1")
# Folders that belong to the distribution.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/lib/sysusers.d /usr/lib/systemd /usr/lib/systemd/system /usr/share/bash-completion
  /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions /usr/share/fish
  /usr/share/fish/vendor_completions.d /usr/share/man /usr/share/man/man1 /usr/lib/debug /usr/lib/debug/.build-id)

include(CPack)
