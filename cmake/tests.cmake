# slime_test(NAME name SOURCES file... LABELS label... [LIBS target...] [ARGUMENTS arg...] [TIMEOUT seconds])
#
# One cmocka program, one line in ctest's report. Every test states its label (unit, conformance, e2e, fault,
# threads, count, install, fuzz, ...). The default limit ends what hangs: it is far beyond what a test takes, since the
# machine may be busy with other things. A longer one is stated with TIMEOUT and has its reason in a comment beside it.
# Exit 77 is "skipped".
function(slime_test)
	cmake_parse_arguments(T "" "NAME;TIMEOUT" "SOURCES;LIBS;LABELS;ARGUMENTS" ${ARGN})
	if(NOT T_LABELS)
		message(FATAL_ERROR "test ${T_NAME} states no label")
	endif()
	add_executable(test-${T_NAME} ${T_SOURCES})
	target_link_libraries(test-${T_NAME} PRIVATE slime_flags slime_test_support ${T_LIBS})
	target_compile_options(test-${T_NAME} PRIVATE -UNDEBUG) # a fake's assert is a check, in every build
	set_target_properties(test-${T_NAME} PROPERTIES
		RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
	add_test(NAME ${T_NAME} COMMAND test-${T_NAME} ${T_ARGUMENTS})
	slime_test_properties(${T_NAME} "${T_TIMEOUT}" "${T_LABELS}")
endfunction()

# slime_script_test(NAME name COMMAND cmd... LABELS label... [TIMEOUT seconds])
#
# A test that is a script; it finds the built programs in $SLIME_BIN and the sources in $SLIME_SOURCE.
function(slime_script_test)
	cmake_parse_arguments(T "" "NAME;TIMEOUT" "COMMAND;LABELS" ${ARGN})
	if(NOT T_LABELS)
		message(FATAL_ERROR "test ${T_NAME} states no label")
	endif()
	add_test(NAME ${T_NAME} COMMAND ${T_COMMAND})
	slime_test_properties(${T_NAME} "${T_TIMEOUT}" "${T_LABELS}")
endfunction()

function(slime_test_properties name timeout labels)
	if(NOT timeout)
		set(timeout 300)
	endif()
	set_tests_properties(${name} PROPERTIES
		LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
		ENVIRONMENT "SLIME_BIN=${CMAKE_BINARY_DIR}/bin;SLIME_SOURCE=${PROJECT_SOURCE_DIR};SLIME_BUILD=${CMAKE_BINARY_DIR}")
endfunction()
