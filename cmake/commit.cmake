# Run at every build: COMMIT_HEADER defines the commit of SOURCE_DIR, "+changes" when tracked files differ from it.
set(commit unknown)
if(EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND git describe --always --abbrev=12 --exclude=* --dirty=+changes WORKING_DIRECTORY ${SOURCE_DIR}
                  OUTPUT_VARIABLE said RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(commit ${said})
  endif()
endif()
file(CONFIGURE OUTPUT ${COMMIT_HEADER} CONTENT "#define ASSAY_COMMIT \"${commit}\"\n")  # written only when it changes
