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
	slime_test_properties(${T_NAME} "${T_TIMEOUT}" "${T_LABELS}" test-${T_NAME})
endfunction()

# slime_script_test(NAME name COMMAND cmd... LABELS label... [NEEDS target...] [TIMEOUT seconds])
#
# A test that is a script; it finds the built programs in $SLIME_BIN and the sources in $SLIME_SOURCE. NEEDS is what it
# uses of the build, for tests of labels that are also built alone (threads, count, install).
function(slime_script_test)
	cmake_parse_arguments(T "" "NAME;TIMEOUT" "COMMAND;LABELS;NEEDS" ${ARGN})
	if(NOT T_LABELS)
		message(FATAL_ERROR "test ${T_NAME} states no label")
	endif()
	add_test(NAME ${T_NAME} COMMAND ${T_COMMAND})
	slime_test_properties(${T_NAME} "${T_TIMEOUT}" "${T_LABELS}" ${T_NEEDS})
endfunction()

# slime_test_properties(name timeout labels [target...]): the target "tests-LABEL" builds the targets of all its tests.
function(slime_test_properties name timeout labels)
	if(NOT timeout)
		set(timeout 300)
	endif()
	set_tests_properties(${name} PROPERTIES
		LABELS "${labels}" TIMEOUT ${timeout} SKIP_RETURN_CODE 77
		ENVIRONMENT "SLIME_BIN=${CMAKE_BINARY_DIR}/bin;SLIME_SOURCE=${PROJECT_SOURCE_DIR};SLIME_BUILD=${CMAKE_BINARY_DIR}")
	foreach(label ${labels})
		# Those with real processes take longest, and wait most: they begin first, so that at the end nobody waits for one.
		if(label MATCHES "^(e2e|fault|interop)$")
			set_tests_properties(${name} PROPERTIES COST 20)
		endif()
		if(NOT TARGET tests-${label})
			add_custom_target(tests-${label})
		endif()
		if(ARGN)
			add_dependencies(tests-${label} ${ARGN})
		endif()
	endforeach()
endfunction()

# slime_rdma_test(NAME name [PAIR n] COMMAND target-or-file [arg...] [TIMEOUT seconds])
#
# A test of label rdma: it runs in the guest of tests/rdma, as root, on a pair of RDMA devices there: rxe0 and rxe1 of
# pair 0, unless it names another one, whose devices its command then names, too (tests/rdma/devices.sh). All tests share
# one guest; those of one pair run one after the other, in the order of these calls, and beside those of other pairs.
# "rdma-boot" runs it, and each has its own line in ctest's report, with its own output. Exit 77 is "skipped". No word of
# the command holds a tab or a semicolon. The limit is that of one test in the guest, on a busy machine.
function(slime_rdma_test)
	cmake_parse_arguments(T "" "NAME;PAIR;TIMEOUT" "COMMAND" ${ARGN})
	if(NOT T_TIMEOUT)
		set(T_TIMEOUT 120)
	endif()
	if(NOT T_PAIR)
		set(T_PAIR 0)
	endif()
	list(POP_FRONT T_COMMAND program)
	if(TARGET ${program})
		set(program "$<TARGET_FILE:${program}>")
	endif()
	list(JOIN T_COMMAND "\t" arguments)
	string(JOIN "\t" line rdma-${T_NAME} ${T_TIMEOUT} ${T_PAIR} "${program}" ${arguments})
	set_property(GLOBAL APPEND PROPERTY SLIME_RDMA_TESTS "${line}")
	add_test(NAME rdma-${T_NAME}
		COMMAND ${PROJECT_SOURCE_DIR}/tests/rdma/recorded.sh ${SLIME_RDMA_RESULTS} rdma-${T_NAME})
	slime_test_properties(rdma-${T_NAME} "" rdma)
	set_tests_properties(rdma-${T_NAME} PROPERTIES FIXTURES_REQUIRED rdma)
endfunction()
set(SLIME_RDMA_RESULTS ${CMAKE_BINARY_DIR}/rdma/results)
