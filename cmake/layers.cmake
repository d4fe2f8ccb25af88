# A folder may include its own headers and those of the folders it USES, nothing else: each target sees a private include
# root that holds links to just those folders, so a stray include does not compile.

set(ASSAY_LAYERS ${CMAKE_BINARY_DIR}/layers)

# assay_uses(target folder...): lets an executable or library include and link these folders.
function(assay_uses target)
  foreach(folder IN LISTS ARGN)
    target_link_libraries(${target} PRIVATE ${folder})
    target_include_directories(${target} PRIVATE ${ASSAY_LAYERS}/${folder})
  endforeach()
endfunction()

# assay_layer(folder [USES folder...]): the static library of one top folder.
function(assay_layer folder)
  cmake_parse_arguments(ARG "" "" "USES" ${ARGN})
  file(MAKE_DIRECTORY ${ASSAY_LAYERS}/${folder})
  if(NOT EXISTS ${ASSAY_LAYERS}/${folder}/${folder})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${ASSAY_LAYERS}/${folder}/${folder} SYMBOLIC)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/cli/(main|cpu_check)\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "/ops/")
  file(GLOB shared CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/ops/*.cpp)
  foreach(op IN LISTS ASSAY_OPS)
    list(FILTER shared EXCLUDE REGEX "/ops/${op}\\.cpp$")
    file(GLOB mine CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/ops/${op}.cpp ${CMAKE_SOURCE_DIR}/${folder}/ops/${op}/*.cpp)
    list(APPEND sources ${mine})
  endforeach()
  add_library(${folder} STATIC ${sources} ${shared})
  set_target_properties(${folder} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${folder} PUBLIC ${ASSAY_LAYERS}/${folder})
  foreach(used IN LISTS ARG_USES)
    target_link_libraries(${folder} PUBLIC ${used})
  endforeach()
endfunction()

# assay_embed_cases(target): every op's case list becomes a string in the binary, and is also linked beside the program,
# where an edited file wins over the embedded text without a rebuild.
function(assay_embed_cases target)
  set(generated ${CMAKE_BINARY_DIR}/embedded_cases.cpp)
  set(body "#include <string_view>\n#include \"probes/ops/embedded_cases.hpp\"\nnamespace assay {\nstd::string_view embedded_cases(std::string_view op) {\n")
  foreach(op IN LISTS ASSAY_OPS)
    set(list_file ${CMAKE_SOURCE_DIR}/probes/ops/${op}/${op}.cases)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list_file})
    file(READ ${list_file} text)
    string(APPEND body "  if (op == \"${op}\") return R\"CASES(${text})CASES\";\n")
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cases)
    file(CREATE_LINK ${list_file} ${CMAKE_BINARY_DIR}/cases/${op}.cases SYMBOLIC)
  endforeach()
  string(APPEND body "  return {};\n}\n}  // namespace assay\n")
  file(GENERATE OUTPUT ${generated} CONTENT "${body}")
  target_sources(${target} PRIVATE ${generated})
endfunction()

# assay_embed_known_defects(target): the reviewed list becomes a string in the binary, and is also linked beside the program,
# where an edited file wins.
function(assay_embed_known_defects target)
  set(generated ${CMAKE_BINARY_DIR}/embedded_known_defects.cpp)
  set(list_file ${CMAKE_SOURCE_DIR}/data/known_defects.json)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list_file})
  file(READ ${list_file} text)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/data)
  file(CREATE_LINK ${list_file} ${CMAKE_BINARY_DIR}/data/known_defects.json SYMBOLIC)
  file(GENERATE OUTPUT ${generated} CONTENT
       "#include \"probes/diagnose/known.hpp\"\nnamespace assay {\nstd::string_view embedded_known_defects() {\n  return R\"JSON(${text})JSON\";\n}\n}  // namespace assay\n")
  target_sources(${target} PRIVATE ${generated})
endfunction()

# assay_embed_kernels(target): the text of every kernel file and of what it includes becomes a string in the binary.
function(assay_embed_kernels target)
  set(generated ${CMAKE_BINARY_DIR}/embedded_kernels.cpp)
  set(body "#include \"kernels/sources.hpp\"\nnamespace assay::kernels {\nstatic constexpr Source all[] = {\n")
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/kernels/*.cu ${CMAKE_SOURCE_DIR}/kernels/*.cuh
       ${CMAKE_SOURCE_DIR}/kernels/*.hpp)
  list(REMOVE_ITEM files kernels/sources.hpp)
  foreach(file IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${file})
    file(READ ${CMAKE_SOURCE_DIR}/${file} text)
    string(APPEND body "    {\"${file}\", R\"KERNEL(${text})KERNEL\"},\n")
  endforeach()
  string(APPEND body "};\nstd::span<const Source> sources() {\n  return all;\n}\n}  // namespace assay::kernels\n")
  file(GENERATE OUTPUT ${generated} CONTENT "${body}")
  target_sources(${target} PRIVATE ${generated})
endfunction()
