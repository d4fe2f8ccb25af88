# Writes OUTPUT: a C++ file that includes the kernel file FILE and lists its entries, found by preprocessing. INCLUDES: folders.
set(flags -std=c++20 -E -P -DASSAY_LIST_ENTRIES)
foreach(folder IN LISTS INCLUDES)
  list(APPEND flags -I${folder})
endforeach()
execute_process(COMMAND ${COMPILER} ${flags} -include tests/emulator/cuda.hpp -x c++ ${SOURCE_DIR}/${FILE}
                OUTPUT_VARIABLE text ERROR_VARIABLE said RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "cannot preprocess ${FILE} for the emulator:\n${said}")
endif()
string(REPLACE ";" "," text "${text}")
string(REGEX MATCHALL "ASSAY_ENTRY[ \n]+void[ \n]+[A-Za-z0-9_]+" entries "${text}")
if(NOT entries)
  message(FATAL_ERROR "${FILE} has no entry: expected extern \"C\" __global__ void NAME(const Args)")
endif()
set(rows "")
foreach(entry IN LISTS entries)
  string(REGEX REPLACE ".*[ \n]" "" name "${entry}")
  string(APPEND rows "    ASSAY_ENTRY_ROW(${name}),\n")
endforeach()
# As under nvcc each file is a program of its own: what two files define under one name must not be merged by the linker.
get_filename_component(stem ${FILE} NAME_WE)
file(WRITE ${OUTPUT} "#include \"tests/emulator/cuda.hpp\"\n#define kernels kernels_${stem}\n#include \"${FILE}\"\n
namespace assay::emulator {\nextern const Kernel emulated_${stem}[] = {\n${rows}    {nullptr, nullptr, 0}};\n}\n")
