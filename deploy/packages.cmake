# Packages: `cpack -G DEB` in the build folder of the release. Two of each: rung, and its debug symbols.
set(CPACK_PACKAGE_NAME rung)
set(CPACK_PACKAGE_VENDOR "The Rung authors")
set(RUNG_PACKAGE_CONTACT "The Rung authors <maintainers@rung.invalid>" CACHE STRING "Maintainer of the packages: Name <address>")
set(CPACK_PACKAGE_CONTACT ${RUNG_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "durable retries for RabbitMQ")
set(CPACK_PACKAGE_DESCRIPTION
"A sidecar that takes messages which a consumer could not handle, returns them
to their queue after the delays of a ladder (5 s, 30 s, 1 min ... 2 d), and
records every step in MySQL or MariaDB. It also delivers delayed messages.")
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

include(CPack)
