# Operators: add_op() names one, ridge_op_sources() turns a list of them into sources.
#
#   src/ops/<op>/contract.h                              also readable as ridge/ops/<op>.h
#   src/ops/<op>/{op,reference,cases,cost}.cpp           what an operator needs
#   src/ops/<op>/cpu_<idea>.cpp                          an implementation: defines Implementation cpu_<idea>()
#                                                        or a kernel that describes itself in a comment ridge-kernel, and
#                                                        is built once for each of its configurations (ops/cpu_kernel.h)
#   src/ops/<op>/**/*.cpp                                 helpers; kernels_<set>.cpp and tile_<set>.cpp get those instructions
#   src/ops/<op>/cuda_<idea>.cpp                         the same for CUDA, in builds that have that backend
#   src/ops/<op>/cuda_*.cu                               its device source, embedded, compiled at run time
#   src/ops/<op>/backward/, fp8/, quantize/, norm/        the same files once more, of the entries <op>_backward (its
#                                                        gradients), <op>_fp8 (of 8-bit codes), <op>_quantize (its result in 8-bit codes) and
#                                                        <op>_norm (of rows that are normalised first)
#
# The lists are generated because self-registering objects vanish from static libraries.
set(RIDGE_GENERATED_DIR "${CMAKE_BINARY_DIR}/generated")

function(ridge_write_if_different path content)
  file(WRITE "${path}.new" "${content}")
  file(COPY_FILE "${path}.new" "${path}" ONLY_IF_DIFFERENT)
endfunction()

# add_op(<name> [LIST list] [FOLDER folder])
# Puts the operator of src/ops/<name>, or of another folder, on a list; the product's own list is called "ridge".
function(add_op name)
  cmake_parse_arguments(arg "" "LIST;FOLDER" "" ${ARGN})
  if(NOT arg_LIST)
    set(arg_LIST ridge)
  endif()
  if(NOT arg_FOLDER)
    set(arg_FOLDER "${PROJECT_SOURCE_DIR}/src/ops/${name}")
  endif()
  foreach(required contract.h op.cpp reference.cpp cases.cpp cost.cpp)
    if(NOT EXISTS "${arg_FOLDER}/${required}")
      message(FATAL_ERROR "operator ${name}: ${arg_FOLDER}/${required} is missing; an operator needs contract.h, "
                          "op.cpp, reference.cpp, cases.cpp and cost.cpp (see CONTRIBUTING.md)")
    endif()
  endforeach()
  get_property(known GLOBAL PROPERTY RIDGE_OPS_${arg_LIST})
  if("${name}" IN_LIST known)
    message(FATAL_ERROR "operator ${name} is added twice to the list ${arg_LIST}")
  endif()
  set_property(GLOBAL APPEND PROPERTY RIDGE_OPS_${arg_LIST} ${name})
  set_property(GLOBAL PROPERTY RIDGE_OP_FOLDER_${arg_LIST}_${name} "${arg_FOLDER}")
  # Generated files name sources from their own folder: what they hold does not depend on where the project is.
  file(RELATIVE_PATH folder "${RIDGE_GENERATED_DIR}/include/ridge/ops" "${arg_FOLDER}")
  ridge_write_if_different("${RIDGE_GENERATED_DIR}/include/ridge/ops/${name}.h"
                           "#pragma once\n#include \"${folder}/contract.h\"  // IWYU pragma: export\n")
  foreach(more backward fp8 quantize norm)
    if(EXISTS "${arg_FOLDER}/${more}/contract.h")
      add_op(${name}_${more} LIST ${arg_LIST} FOLDER "${arg_FOLDER}/${more}")
    endif()
  endforeach()
endfunction()

# ridge_described_kernel(<file> <operator> <symbol prefix> <sources variable>)
# A kernel that describes itself: a generated source per configuration, which defines its values and includes the file; and
# one that makes the Implementation of them. The library parses the whole description again and refuses to start
# if it reads other configurations than were built.
function(ridge_described_kernel file op prefix sources_variable)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(READ "${file}" text)
  file(RELATIVE_PATH path "${RIDGE_GENERATED_DIR}" "${file}")
  get_filename_component(name "${file}" NAME_WE)
  string(FIND "${text}" "/* ridge-kernel" begin)
  string(SUBSTRING "${text}" ${begin} -1 block)
  string(FIND "${block}" "*/" end)
  string(SUBSTRING "${block}" 0 ${end} block)
  string(REGEX REPLACE "#[^\n]*" "" block "${block}")
  string(FIND "${block}" "[configs]" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "${file}: its ridge-kernel comment has no [configs]")
  endif()
  math(EXPR begin "${begin} + 9")
  string(SUBSTRING "${block}" ${begin} -1 configs)
  string(FIND "${configs}" "[" end)  # the next table
  string(SUBSTRING "${configs}" 0 ${end} configs)
  string(REGEX MATCHALL "[a-z][a-z0-9_]*[ \t]*=[ \t]*{[^}]*}" configs "${configs}")
  if(NOT configs)
    message(FATAL_ERROR "${file}: [configs] holds no configuration; the smallest is default = { }")
  endif()
  set(declarations "")
  set(entries "")
  set(sources)
  foreach(config IN LISTS configs)
    string(REGEX MATCH "^[a-z0-9_]+" config_name "${config}")
    string(REGEX MATCHALL "[A-Z][A-Z0-9_]*[ \t]*=[ \t]*-?[0-9]+" values "${config}")
    set(lines "")
    foreach(value IN LISTS values)
      string(REGEX REPLACE "[ \t]*=[ \t]*" " " line "${value}")
      string(APPEND lines "#define ${line}\n")
    endforeach()
    set(symbol "${prefix}_${name}_${config_name}")
    set(source "${RIDGE_GENERATED_DIR}/${symbol}.cpp")
    ridge_write_if_different("${source}" "// Generated by cmake/ridge_ops.cmake from ${path}; do not edit.\n#define ridge_kernel ${symbol}\n${lines}#include \"${path}\"\n")
    set(flags $<$<CONFIG:Release>:-O3>)  # as candidates are built
    if(config MATCHES "instructions[ \t]*=[ \t]*\"avx512\"")
      list(APPEND flags ${RIDGE_AVX512_FLAGS})
    elseif(config MATCHES "instructions[ \t]*=[ \t]*\"avx2\"")
      list(APPEND flags ${RIDGE_AVX2_FLAGS})
    endif()
    set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${flags}" SKIP_PRECOMPILE_HEADERS ON)
    list(APPEND sources "${source}")
    string(APPEND declarations "extern \"C\" int ${symbol}(const ridge_call*);\n")
    string(APPEND entries "      {\"${config_name}\", ${symbol}},\n")
  endforeach()
  set(generated "${RIDGE_GENERATED_DIR}/${prefix}_${name}.cpp")
  ridge_write_if_different("${generated}"
    "// Generated by cmake/ridge_ops.cmake from ${path}; do not edit.\n#include \"ops/cpu_kernel.h\"\n\n${declarations}\nnamespace ridge::ops::${op} {\nImplementation ${name}();\nImplementation ${name}() {\n  static constexpr KernelEntry entries[] = {\n${entries}  };\n  return cpu_kernel(\"${name}\", R\"ridge_file(${text})ridge_file\", entries);\n}\n}  // namespace ridge::ops::${op}\n")
  set(${sources_variable} ${sources} "${generated}" PARENT_SCOPE)
endfunction()

# ridge_instruction_flags(<sources>...)
# Files named after instructions are compiled with those.
function(ridge_instruction_flags)
  foreach(source IN LISTS ARGN)
    if(source MATCHES "/(kernels|tile)_amx\\.cpp$")
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${RIDGE_AMX_FLAGS})
    elseif(source MATCHES "/(kernels|tile)_bf16dot\\.cpp$")
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${RIDGE_BF16DOT_FLAGS})
    elseif(source MATCHES "/(kernels|tile)_avx512\\.cpp$")
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${RIDGE_AVX512_FLAGS})
    elseif(source MATCHES "/(kernels|tile)_avx2\\.cpp$")
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${RIDGE_AVX2_FLAGS})
    elseif(source MATCHES "_(avx2|avx512|bf16dot|amx)\\.cpp$" AND NOT source MATCHES "/cpu_")  # the same code once more, slower
      message(FATAL_ERROR "${source} is named after instructions that it is not compiled with; call it kernels_ or tile_")
    endif()
    if(source MATCHES "/kernels_[a-z0-9]+\\.cpp$")  # or a root would be no vector
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -fno-math-errno)
      set_property(SOURCE "${source}" PROPERTY SKIP_PRECOMPILE_HEADERS ON)
    endif()
    if(source MATCHES "/(kernels|tile)_(avx2|avx512|bf16dot|amx)\\.cpp$")  # a precompiled header is for one set of instructions
      set_property(SOURCE "${source}" PROPERTY SKIP_PRECOMPILE_HEADERS ON)
    endif()
    # Without masks of its own a set of instructions computes both sides of a choice, which might trap: loops stay scalar for it.
    if(source MATCHES "/simd/kernels_(portable|avx2|avx512)\\.cpp$")
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -fno-trapping-math)
    endif()
    # GCC 12 warns of the operand that its own intrinsics leave open. No flag of the instruction set: candidates get those.
    if(source MATCHES "/(kernels|tile)_(avx512|bf16dot|amx)\\.cpp$")
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS -Wno-uninitialized)
    endif()
  endforeach()
endfunction()

# ridge_op_sources(<list> <sources variable> <entries variable>)
# An operator whose contract declares it for a std::span of its arguments gets that entry, too.
# Sources of the operators of a list, with the generated <list>_operators(); and the generated file with their public
# entry points, which belongs to a library that may use src/dispatch. A list other than the product's own embeds its device
# sources as ridge::ops::<list>_sources (ridge_embed).
function(ridge_op_sources list sources_variable entries_variable)
  get_property(ops GLOBAL PROPERTY RIDGE_OPS_${list})
  set(sources)
  set(declarations "")
  set(assembled "")
  set(entries "")
  set(includes "")
  foreach(op IN LISTS ops)
    get_property(folder GLOBAL PROPERTY RIDGE_OP_FOLDER_${list}_${op})
    file(GLOB_RECURSE op_sources CONFIGURE_DEPENDS "${folder}/*.cpp")
    list(FILTER op_sources EXCLUDE REGEX "^${folder}/(backward|fp8|quantize|norm)/")  # entries of their own
    file(GLOB implementations CONFIGURE_DEPENDS "${folder}/cpu_*.cpp" "${folder}/cuda_*.cpp")
    ridge_backend_sources(op_sources)
    ridge_backend_sources(implementations)
    foreach(file IN LISTS implementations)
      file(STRINGS "${file}" described REGEX "ridge-kernel$" LIMIT_COUNT 1)
      if(described AND file MATCHES "/cpu_[^/]*$")
        list(REMOVE_ITEM op_sources "${file}")
        set_property(GLOBAL APPEND PROPERTY RIDGE_DESCRIBED_KERNELS_${list} "${file}")
        ridge_described_kernel("${file}" ${op} "${list}_${op}" built)
        list(APPEND op_sources ${built})
      endif()
    endforeach()
    # One batch per operator (RIDGE_UNITY_BUILD) of what describes it; its implementations and the reference share nothing with it.
    set_property(SOURCE "${folder}/op.cpp" "${folder}/cases.cpp" "${folder}/cost.cpp" PROPERTY UNITY_GROUP ${op})
    list(APPEND sources ${op_sources})
    set(calls "")
    string(APPEND declarations "namespace ${op} {\nOperator describe();\n")
    foreach(file IN LISTS implementations)
      get_filename_component(implementation "${file}" NAME_WE)
      string(APPEND declarations "Implementation ${implementation}();\n")
      list(APPEND calls "${op}::${implementation}()")
    endforeach()
    string(APPEND declarations "}  // namespace ${op}\n")
    string(JOIN ", " calls ${calls})
    string(APPEND assembled "    result.push_back(assemble(${op}::describe(), {${calls}}));\n")
    string(APPEND includes "#include \"ridge/ops/${op}.h\"\n")
    string(APPEND entries "namespace ops::${op} {\nResult<Call> make_call(const Args&);\n}\n"
           "Status ${op}(const ops::${op}::Args& args, const Stream& stream) {\n"
           "  static const ops::Operator* const op = dispatch::resolve(\"${op}\");\n"
           "  auto call = ops::${op}::make_call(args);\n"
           "  if (!call) return call.error();\n"
           "  return dispatch::launch(*op, *call, stream);\n}\n")
    file(STRINGS "${folder}/contract.h" takes_list REGEX "^Status ${op}\\(std::span<const " LIMIT_COUNT 1)
    if(takes_list)
      string(APPEND entries "Status ${op}(std::span<const ops::${op}::Args> args, const Stream& stream) {\n"
             "  static const ops::Operator* const op = dispatch::resolve(\"${op}\");\n"
             "  return dispatch::launch(*op, args.size(), [&](std::size_t i) { return ops::${op}::make_call(args[i]); }, stream);\n}\n")
    endif()
  endforeach()
  set(more "")
  if(NOT list STREQUAL "ridge")
    set(more "    add_device_sources(${list}_sources());\n")
    string(APPEND declarations "std::span<const EmbeddedFile> ${list}_sources();\n")
  endif()
  set(head "// Generated by cmake/ridge_ops.cmake from the folders named by add_op; do not edit.\n")
  ridge_write_if_different("${RIDGE_GENERATED_DIR}/${list}_operators.cpp"
    "${head}#include <span>\n#include <vector>\n\n#include \"ops/described_kernel.h\"\n\nnamespace ridge::ops {\n${declarations}\nstd::span<const Operator> ${list}_operators();\nstd::span<const Operator> ${list}_operators() {\n  static const std::vector<Operator> list = [] {\n    std::vector<Operator> result;\n${more}${assembled}    return result;\n  }();\n  return list;\n}\n}  // namespace ridge::ops\n")
  ridge_write_if_different("${RIDGE_GENERATED_DIR}/${list}_entries.cpp"
    "${head}#include \"dispatch/launch.h\"\n${includes}\nnamespace ridge {\n${entries}}  // namespace ridge\n")
  ridge_instruction_flags(${sources})
  set(${sources_variable} ${sources} "${RIDGE_GENERATED_DIR}/${list}_operators.cpp" PARENT_SCOPE)
  set(${entries_variable} "${RIDGE_GENERATED_DIR}/${list}_entries.cpp" PARENT_SCOPE)
endfunction()

# kernels_ and tile_ with avx2, avx512, bf16dot or amx behind may use those instructions and must only be entered after a run-time
# check (a cpu_*.cpp is entered before it); such a file includes nothing with inline functions that another file could share, or their copies would carry them elsewhere.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(RIDGE_AVX2_FLAGS -mavx2 -mfma -mf16c)
  set(RIDGE_AVX512_FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mprefer-vector-width=512)
  set(RIDGE_BF16DOT_FLAGS ${RIDGE_AVX512_FLAGS} -mavx512bf16)
  set(RIDGE_AMX_FLAGS ${RIDGE_BF16DOT_FLAGS} -mamx-tile -mamx-bf16)
endif()
