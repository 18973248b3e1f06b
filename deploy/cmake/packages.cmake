# SPDX-License-Identifier: Apache-2.0
# `cpack -G DEB` in a build folder with the prefix /usr makes the Debian packages, one for each component of
# install.cmake; `./dev deb` runs it:
#   libtremula0.2            library: libtremula.so.0.2 and libtremula_ofi.so, which it loads
#   libtremula-mpi0.2        mpi
#   libtremula-scalapack0.2  scalapack
#   libtremula-weights0.2    weights
#   libtremula-oasis0.2      oasis
#   libtremula-dev           development: headers, modules for Fortran, links, CMake, pkg-config
#   tremula                  tools: the program, man pages, the manual, the systemd unit
#   tremula-mpi              tools_mpi: the program that `tremula bench --transport mpi` runs
#   python3-tremula          python, in Debian's module folder
include_guard()

set(interface ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(this_version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

# debian_package(COMPONENT NAME SECTION SUMMARY TEXT [DEPENDS ...] [RECOMMENDS ...] [SUGGESTS ...] [ALL])
macro(debian_package component name section summary text)
  cmake_parse_arguments(ARG "ALL" "" "DEPENDS;RECOMMENDS;SUGGESTS" ${ARGN})
  string(TOUPPER ${component} upper)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${text}")
  foreach(kind DEPENDS RECOMMENDS SUGGESTS)
    list(JOIN ARG_${kind} ", " CPACK_DEBIAN_${upper}_PACKAGE_${kind})
  endforeach()
  if(ARG_ALL)
    set(CPACK_DEBIAN_${upper}_PACKAGE_ARCHITECTURE all)
  endif()
  if(EXISTS ${PROJECT_SOURCE_DIR}/deploy/debian/${component}.lintian-overrides)
    install(FILES deploy/debian/${component}.lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
      RENAME ${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
  endif()
  install(FILES deploy/debian/copyright ${debian_changelog}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endmacro()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tremula)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL "")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "Tremula developers <tremula@packages.invalid>" CACHE STRING
  "Maintainer of the Debian packages")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})  # libtremula.so for libtremula_mpi.so
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # and the ldconfig trigger

# This is only a stub with a fixed date. The changes are in CHANGELOG.md, in the package tremula.
set(debian_changelog ${PROJECT_BINARY_DIR}/debian/changelog.Debian.gz)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/changelog.Debian @ONLY CONTENT
"tremula (@PROJECT_VERSION@-@CPACK_DEBIAN_PACKAGE_RELEASE@) unstable; urgency=medium

  * See /usr/share/doc/tremula/CHANGELOG.md of the package tremula.

 -- @CPACK_DEBIAN_PACKAGE_MAINTAINER@  Thu, 01 Jan 2026 00:00:00 +0000
")
execute_process(COMMAND ${TREMULA_GZIP} -9nkf ${PROJECT_BINARY_DIR}/debian/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)

set(about "Tremula lets separately started parallel jobs share distributed arrays: it
computes which elements each pair of ranks exchanges and moves them
straight from memory to memory, step by step.")

debian_package(library libtremula${interface} libs "distributed arrays between parallel jobs"
  "${about}\n
This package contains the library, which needs no MPI, and its module for
libfabric."
  SUGGESTS "tremula ${this_version}")
set(needed_libraries "libtremula${interface} ${this_version}")
if(TARGET tremula_mpi)
  debian_package(mpi libtremula-mpi${interface} libs "distributed arrays between parallel jobs: communicators"
    "${about}\n
This package contains the part of the library that takes communicators of
Open MPI."
    DEPENDS "libtremula${interface} ${this_version}")
  debian_package(tools_mpi tremula-mpi science "distributed arrays between parallel jobs: bench over MPI"
    "${about}\n
This package contains the program that 'tremula bench --transport mpi' runs."
    DEPENDS "tremula ${this_version}" openmpi-bin)
  list(APPEND needed_libraries "libtremula-mpi${interface} ${this_version}")
endif()
if(TARGET tremula_scalapack)
  debian_package(scalapack libtremula-scalapack${interface} libs "distributed arrays between parallel jobs: for ScaLAPACK"
    "${about}\n
This package contains a library that replaces p?gemr2d and p?tran? of
ScaLAPACK in programs that call them."
    SUGGESTS libscalapack-openmpi2.2)
  list(APPEND needed_libraries "libtremula-scalapack${interface} ${this_version}")
endif()
if(TARGET tremula_weights)
  debian_package(weights libtremula-weights${interface} libs "distributed arrays between parallel jobs: regridding"
    "${about}\n
This package contains a library that regrids the fields of streams, with the
weights of a SCRIP or ESMF file."
    DEPENDS "libtremula${interface} ${this_version}")
  list(APPEND needed_libraries "libtremula-weights${interface} ${this_version}")
endif()
if(TARGET tremula_oasis)
  debian_package(oasis libtremula-oasis${interface} libs "distributed arrays between parallel jobs: calls of OASIS3-MCT"
    "${about}\n
This package contains the library behind the Fortran module tremula_oasis,
which provides the calls of OASIS3-MCT."
    DEPENDS "libtremula-mpi${interface} ${this_version}")
  list(APPEND needed_libraries "libtremula-oasis${interface} ${this_version}")
endif()
debian_package(development libtremula-dev libdevel "distributed arrays between parallel jobs: development"
  "${about}\n
This package contains the files for building programs: headers, links to
the libraries, CMake targets and pkg-config files."
  DEPENDS ${needed_libraries} RECOMMENDS libopenmpi-dev SUGGESTS "tremula ${this_version}")
debian_package(tools tremula science "distributed arrays between parallel jobs: server and command line"
  "${about}\n
This package contains the program tremula: it runs the server that
introduces jobs to each other, prints its state, shows what a
redistribution will do, and measures how fast streams are on a host."
  RECOMMENDS "libtremula${interface} ${this_version}" SUGGESTS "tremula-mpi ${this_version}")
install(FILES deploy/systemd/tremula.service DESTINATION lib/systemd/system COMPONENT tools EXCLUDE_FROM_ALL)

debian_package(python python3-tremula python "distributed arrays between parallel jobs: Python"
  "${about}\n
This package contains the module tremula, for NumPy arrays, and
tremula.torch, for PyTorch tensors."
  ALL DEPENDS "libtremula${interface} ${this_version}" "python3 (>= 3.9)" python3-numpy
  RECOMMENDS "tremula ${this_version}" SUGGESTS "libtremula-mpi${interface}" python3-mpi4py python3-torch python3-xarray)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
  ${PROJECT_SOURCE_DIR}/deploy/debian/postinst ${PROJECT_SOURCE_DIR}/deploy/debian/prerm)
install(DIRECTORY bindings/python/tremula DESTINATION lib/python3/dist-packages COMPONENT python EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN "*.py" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/python/tremula-${PROJECT_VERSION}.egg-info @ONLY CONTENT
"Metadata-Version: 2.1
Name: tremula
Version: @PROJECT_VERSION@
Summary: Separately started parallel jobs share distributed arrays
License: Apache-2.0
Requires-Dist: numpy
")  # lets pip find the package
install(FILES ${PROJECT_BINARY_DIR}/python/tremula-${PROJECT_VERSION}.egg-info
  DESTINATION lib/python3/dist-packages COMPONENT python EXCLUDE_FROM_ALL)
install(FILES bindings/python/README.md bindings/python/TEN_MINUTES.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/python3-tremula COMPONENT python EXCLUDE_FROM_ALL)

include(CPack)
