# add_op(<name>): everything in src/ops/<name> becomes part of the operator library.
#   contract.h            also readable as ridge/ops/<name>.h
#   op.cpp reference.cpp cases.cpp cost.cpp cpu_*.cpp   compiled in
#   cuda_*.cu hip_*.hip   device source, compiled at run time; checked by the cuda preset
# An explicit list of the operators is generated: self-registering objects vanish from static libraries.
set(RIDGE_GENERATED_DIR "${CMAKE_BINARY_DIR}/generated")
set_property(GLOBAL PROPERTY RIDGE_OPS "")

function(add_op name)
  set(folder "${PROJECT_SOURCE_DIR}/src/ops/${name}")
  foreach(required contract.h op.cpp reference.cpp cases.cpp cost.cpp)
    if(NOT EXISTS "${folder}/${required}")
      message(FATAL_ERROR "operator ${name}: ${folder}/${required} is missing; an operator needs contract.h, op.cpp, "
                          "reference.cpp, cases.cpp and cost.cpp (see CONTRIBUTING.md)")
    endif()
  endforeach()
  file(WRITE "${RIDGE_GENERATED_DIR}/include/ridge/ops/${name}.h.new"
       "#pragma once\n#include \"ops/${name}/contract.h\"\n")
  file(COPY_FILE "${RIDGE_GENERATED_DIR}/include/ridge/ops/${name}.h.new"
       "${RIDGE_GENERATED_DIR}/include/ridge/ops/${name}.h" ONLY_IF_DIFFERENT)
  set_property(GLOBAL APPEND PROPERTY RIDGE_OPS ${name})
endfunction()
