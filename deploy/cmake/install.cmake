# SPDX-License-Identifier: Apache-2.0
# The files that `cmake --install` installs:
#   lib/libtremula.so        one library with all rooms inside, which exports only the C interface and needs no MPI
#   lib/libtremula_mpi.so    the calls that take a communicator (tremula_mpi.h), if there is MPI
#   lib/libtremula_ofi.so    the code that calls libfabric; libtremula.so and tremula load it when a link needs it
#   lib/libtremula_scalapack.so  p?gemr2d and p?tran? of ScaLAPACK, as Tremula implements them, if there is MPI
#   lib/libtremula_weights.so  regridding (tremula_weights.h), if there is NetCDF
#   lib/libtremula_oasis.so, lib/libtremula_oasis_fortran.a  the module tremula_oasis, if there are MPI, NetCDF and Fortran
#   bin/tremula              the command line, unless TREMULA_BUILD_PROGRAM is OFF; its man pages are in share/man/man1,
#                            and its completions for bash and zsh in share
#   include/tremula/         the headers of the C interface and its C++ wrapper, no internal ones
#   lib/cmake/tremula/       find_package(tremula [COMPONENTS mpi]) -> tremula::tremula, tremula::mpi, tremula::scalapack
#   share/doc/tremula/       the pages that --help and errors refer to
#   lib/libtremula_fortran.a, lib/libtremula_fortran_mpi.a, lib/libtremula_fortran_weights.a  the modules tremula, tremula_mpi and
#                            tremula_regridding, if there is a Fortran compiler
#   include/tremula/fortran/ their .mod files, and their sources, for other compilers
#   lib/pkgconfig/           tremula.pc for C, tremula_cpp.pc for C++, which sets the standard that tremula.hpp needs;
#                            tremula_mpi.pc, used together with one of these, for MPI's compilers; tremula_weights.pc,
#                            tremula_fortran.pc, tremula_oasis.pc
#   libexec/tremula/         bench_mpi, which `tremula bench --transport mpi` runs, if there is MPI
# Each rule names its component, which is one package of packages.cmake. EXCLUDE_FROM_ALL marks files that only a
# package contains.
include_guard()
include(CMakePackageConfigHelpers)

if(NOT TARGET tremula)
  return()
endif()

set(interface_map ${CMAKE_CURRENT_LIST_DIR}/interface.map)
target_link_options(tremula PRIVATE LINKER:--version-script=${interface_map})
set_target_properties(tremula PROPERTIES LINK_DEPENDS ${interface_map})
# Installs a library, which programs load, and its link without a version, with which programs are built.
macro(tremula_install_library target component)
  install(TARGETS ${target} EXPORT tremula LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    COMPONENT ${component} NAMELINK_COMPONENT development)
endmacro()
tremula_install_library(tremula library)
if(TARGET tremula_ofi)
  target_link_options(tremula_ofi PRIVATE LINKER:--version-script=${interface_map})
  set_target_properties(tremula_ofi PROPERTIES LINK_DEPENDS ${interface_map})
  install(TARGETS tremula_ofi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
endif()
if(TARGET tremula_mpi)
  target_link_options(tremula_mpi PRIVATE LINKER:--version-script=${interface_map})
  set_target_properties(tremula_mpi PROPERTIES LINK_DEPENDS ${interface_map})
  tremula_install_library(tremula_mpi mpi)
  set(mpi_package tremula_mpi)
endif()
if(TARGET tremula_weights)
  target_link_options(tremula_weights PRIVATE LINKER:--version-script=${interface_map})
  set_target_properties(tremula_weights PROPERTIES LINK_DEPENDS ${interface_map})
  tremula_install_library(tremula_weights weights)
  install(DIRECTORY coupling/weights/include/tremula DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
    FILES_MATCHING PATTERN "*.h*")
  set(weights_package tremula_weights)
endif()
if(TARGET tremula_cli)
  install(TARGETS tremula_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/manual/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools
    FILES_MATCHING PATTERN "*.1.gz")
  install(FILES ${PROJECT_BINARY_DIR}/manual/tremula.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tremula COMPONENT tools)
  install(FILES ${PROJECT_BINARY_DIR}/manual/tremula.zsh
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _tremula COMPONENT tools)
endif()
if(TARGET tremula_bench_mpi)
  install(TARGETS tremula_bench_mpi RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/tremula COMPONENT tools_mpi)
endif()
if(TARGET tremula_scalapack)
  set(scalapack_map ${CMAKE_CURRENT_LIST_DIR}/scalapack.map)
  target_link_options(tremula_scalapack PRIVATE LINKER:--version-script=${scalapack_map})
  set_target_properties(tremula_scalapack PROPERTIES LINK_DEPENDS ${scalapack_map})
  tremula_install_library(tremula_scalapack scalapack)
else()
  set(without_mpi PATTERN "tremula_mpi.h*" EXCLUDE PATTERN tremula_scalapack.h EXCLUDE)
endif()
install(DIRECTORY client/include/tremula DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
  FILES_MATCHING PATTERN "*.h*" ${without_mpi})

if(TARGET tremula_fortran)
  set(fortran_libraries tremula_fortran)
  if(TARGET tremula_fortran_mpi)
    list(APPEND fortran_libraries tremula_fortran_mpi)
  endif()
  if(TARGET tremula_fortran_weights)
    list(APPEND fortran_libraries tremula_fortran_weights)
  endif()
  foreach(library ${fortran_libraries})
    install(TARGETS ${library} EXPORT tremula ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
    get_target_property(modules ${library} Fortran_MODULE_DIRECTORY)
    get_target_property(sources ${library} SOURCES)
    list(TRANSFORM sources PREPEND bindings/fortran/ REGEX "^[^/]")
    install(FILES ${sources} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tremula/fortran COMPONENT development)
    install(DIRECTORY ${modules}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tremula/fortran COMPONENT development
      FILES_MATCHING PATTERN "*.mod")
  endforeach()
  set(fortran_package tremula_fortran)
endif()

if(TARGET tremula_oasis)
  target_link_options(tremula_oasis PRIVATE LINKER:--version-script=${interface_map})
  set_target_properties(tremula_oasis PROPERTIES LINK_DEPENDS ${interface_map})
  tremula_install_library(tremula_oasis oasis)
  install(TARGETS tremula_oasis_fortran EXPORT tremula ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  get_target_property(modules tremula_oasis_fortran Fortran_MODULE_DIRECTORY)
  get_target_property(sources tremula_oasis_fortran SOURCES)
  install(FILES ${sources} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tremula/fortran COMPONENT development)
  install(DIRECTORY ${modules}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tremula/fortran COMPONENT development
    FILES_MATCHING PATTERN "*.mod")
  set(oasis_package tremula_oasis)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tremula)
install(EXPORT tremula NAMESPACE tremula:: FILE tremulaTargets.cmake DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/tremulaConfig.cmake.in ${PROJECT_BINARY_DIR}/tremulaConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tremulaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tremulaConfig.cmake ${PROJECT_BINARY_DIR}/tremulaConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT development)

# The manual: pages, their pictures and the files that they link to, placed as in the source tree, so that links work.
file(GLOB_RECURSE pages CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} bindings/*.md cli/*.md client/*.md core/*.md coupling/*.md
  deploy/*.md deploy/*.svg docs/*.md docs/*.svg examples/*.md index_calc/*.md proto/*.md server/*.md transport/*.md)
list(FILTER pages EXCLUDE REGEX /docs/theme/)
foreach(page README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md CODE_OF_CONDUCT.md tests/bench/RESULTS.md tests/long_tests.txt deploy/dependencies.txt ${pages})
  get_filename_component(folder ${page} DIRECTORY)
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder} COMPONENT tools)
endforeach()
foreach(folder client/include coupling/weights/include examples deploy/modulefile deploy/slurm deploy/systemd)
  get_filename_component(parent ${folder} DIRECTORY)
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${parent} COMPONENT tools PATTERN __pycache__ EXCLUDE)
endforeach()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT license)  # packages have a file `copyright` instead

# The prefix is relative to the .pc file itself, so that an installed tree can be moved.
string(REGEX REPLACE "[^/]+" ".." prefix_from_pc ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
foreach(package tremula tremula_cpp ${mpi_package} ${weights_package} ${fortran_package} ${oasis_package})
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endforeach()
