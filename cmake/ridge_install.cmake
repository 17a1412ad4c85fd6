# cmake --install: the programs and their data, and the operator library as the CMake package Ridgeline.
#
#   find_package(Ridgeline REQUIRED)
#   target_link_libraries(mine PRIVATE ridge::dispatch)      # every operator, behind its dispatcher
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS ridge ridge-worker ridge-host RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY data/ DESTINATION "${CMAKE_INSTALL_DATADIR}/ridge")
# What the target "manual" writes (apps/cli).
install(DIRECTORY "${CMAKE_BINARY_DIR}/manual/man1/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
install(FILES "${CMAKE_BINARY_DIR}/manual/completion/ridge" OPTIONAL
        DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${CMAKE_BINARY_DIR}/manual/completion/_ridge" OPTIONAL
        DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(FILES "${CMAKE_BINARY_DIR}/manual/completion/ridge.fish" OPTIONAL
        DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d")
# Kernels that shipped candidates include, and those that campaigns start from.
get_property(described GLOBAL PROPERTY RIDGE_DESCRIBED_KERNELS_ridge)
list(TRANSFORM described REPLACE "^.*/" "")
list(TRANSFORM described REPLACE "^(.+)$" "PATTERN;\\1")
install(DIRECTORY src/ops DESTINATION "${CMAKE_INSTALL_DATADIR}/ridge/sources" FILES_MATCHING PATTERN "*.cu" PATTERN "*.cuh" ${described})

# Public headers use nothing but the standard library; the libraries below are what a program links.
install(DIRECTORY include/ridge DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
get_property(operators GLOBAL PROPERTY RIDGE_OPS_ridge)
foreach(op IN LISTS operators)
  get_property(folder GLOBAL PROPERTY RIDGE_OP_FOLDER_ridge_${op})
  install(FILES "${folder}/contract.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/ridge/ops" RENAME "${op}.h")
endforeach()

# Everything that ridge_dispatch links, so that a new layer below it is exported without a word here.
function(ridge_modules_below target variable)
  set(found ${${variable}})
  if(NOT "${target}" IN_LIST found)
    list(APPEND found "${target}")
    get_target_property(links "${target}" LINK_LIBRARIES)
    foreach(link IN LISTS links)
      if(link MATCHES "^ridge_" AND TARGET "${link}")
        ridge_modules_below("${link}" found)
      endif()
    endforeach()
  endif()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()
ridge_modules_below(ridge_dispatch modules)
foreach(module IN LISTS modules)
  string(REGEX REPLACE "^ridge_" "" name "${module}")
  set_target_properties(${module} PROPERTIES EXPORT_NAME "${name}")
endforeach()

set(package "${CMAKE_INSTALL_LIBDIR}/cmake/Ridgeline")
install(TARGETS ${modules} EXPORT Ridgeline ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT Ridgeline NAMESPACE ridge:: DESTINATION "${package}" FILE RidgelineTargets.cmake)
configure_package_config_file(cmake/RidgelineConfig.cmake.in "${CMAKE_BINARY_DIR}/RidgelineConfig.cmake"
                              INSTALL_DESTINATION "${package}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/RidgelineConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/RidgelineConfig.cmake" "${CMAKE_BINARY_DIR}/RidgelineConfigVersion.cmake"
        DESTINATION "${package}")

# The Python package ridgeline (pyproject.toml, scripts/wheel) takes the programs and their data along; cmake --install alone does
# not make it.
add_custom_target(python_package DEPENDS ridge ridge-worker ridge-host)
if(RIDGE_HAS_TORCH)
  add_dependencies(python_package ridgeline_torch)
endif()
install(TARGETS ridge ridge-worker ridge-host RUNTIME DESTINATION ridgeline/bin COMPONENT python_programs EXCLUDE_FROM_ALL)
install(DIRECTORY data/ DESTINATION ridgeline/share/ridge COMPONENT python_programs EXCLUDE_FROM_ALL)
install(DIRECTORY src/ops DESTINATION ridgeline/share/ridge/sources COMPONENT python_programs EXCLUDE_FROM_ALL
        FILES_MATCHING PATTERN "*.cu" PATTERN "*.cuh" ${described})
