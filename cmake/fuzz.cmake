# slime_fuzz(NAME name SOURCES file... CORPUS folder [LIBS target...])
#
# A parser under foreign bytes: the sources define LLVMFuzzerTestOneInput(). In the fuzz preset it is a libFuzzer
# program, build/fuzz/fuzz/fuzz-NAME, with the folder of its corpus in fuzz-NAME.corpus beside it. In every other tree
# it is a test of label fuzz that feeds it each file of the corpus, so that what was found once stays found.
if(SLIME_FUZZ)
	add_custom_target(fuzz)
endif()

function(slime_fuzz)
	cmake_parse_arguments(F "" "NAME;CORPUS" "SOURCES;LIBS" ${ARGN})
	get_filename_component(corpus ${F_CORPUS} ABSOLUTE)
	if(NOT SLIME_FUZZ)
		slime_test(NAME fuzz-${F_NAME} LABELS fuzz LIBS ${F_LIBS} ARGUMENTS ${corpus}
			SOURCES ${F_SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz/replay.c)
		return()
	endif()
	add_executable(fuzz-${F_NAME} EXCLUDE_FROM_ALL ${F_SOURCES})
	target_link_libraries(fuzz-${F_NAME} PRIVATE slime_flags ${F_LIBS})
	target_include_directories(fuzz-${F_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
	target_compile_options(fuzz-${F_NAME} PRIVATE -UNDEBUG) # what it asserts is what it looks for
	target_link_options(fuzz-${F_NAME} PRIVATE -fsanitize=fuzzer)
	set_target_properties(fuzz-${F_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
	file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/fuzz/fuzz-${F_NAME}.corpus CONTENT "${corpus}\n")
	add_dependencies(fuzz fuzz-${F_NAME})
endfunction()
