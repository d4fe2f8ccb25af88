# Runs PROGRAM with SEED and fails unless its output is GOLDEN, byte for byte.
execute_process(COMMAND ${PROGRAM} ${SEED} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
file(READ ${GOLDEN} golden)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${status}")
endif()
if(NOT printed STREQUAL golden)
  message(FATAL_ERROR "${PROGRAM} prints other digests than ${GOLDEN}: a flag changed the inputs, or the generator changed. "
                      "Released case ids promise these bits; a deliberate change needs a new generator_version.")
endif()
