# What `cmake --install` puts in place. The prefix can be moved afterwards.
include(CMakePackageConfigHelpers)

set(SLIME_CMAKEDIR ${CMAKE_INSTALL_LIBDIR}/cmake/slime)

function(slime_install_library)
	install(TARGETS slime slime_agent slime_pages EXPORT slimeTargets
		LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
		INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
	foreach(headers libslime/include peeragent/lib/include pages/include)
		install(DIRECTORY ${PROJECT_SOURCE_DIR}/${headers}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
			FILES_MATCHING PATTERN "*.h")
	endforeach()
endfunction()

# slime_install_pc(file.pc.in): its @variables@ filled in; the prefix is where the file lies.
function(slime_install_pc template)
	get_filename_component(name ${template} NAME_WLE)
	file(RELATIVE_PATH SLIME_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
	string(REGEX REPLACE "/$" "" SLIME_PC_PREFIX "${SLIME_PC_PREFIX}")
	configure_file(${template} ${CMAKE_BINARY_DIR}/${name} @ONLY)
	install(FILES ${CMAKE_BINARY_DIR}/${name} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

function(slime_install_package)
	file(WRITE ${CMAKE_BINARY_DIR}/slimeConfig.cmake
		"include(\"\${CMAKE_CURRENT_LIST_DIR}/slimeTargets.cmake\")\n")
	write_basic_package_version_file(${CMAKE_BINARY_DIR}/slimeConfigVersion.cmake
		VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
	install(FILES ${CMAKE_BINARY_DIR}/slimeConfig.cmake ${CMAKE_BINARY_DIR}/slimeConfigVersion.cmake
		DESTINATION ${SLIME_CMAKEDIR})
	install(EXPORT slimeTargets NAMESPACE slime:: DESTINATION ${SLIME_CMAKEDIR})
endfunction()

if(TARGET slime)
	slime_install_library()
	slime_install_pc(${PROJECT_SOURCE_DIR}/libslime/slime.pc.in)
	slime_install_pc(${PROJECT_SOURCE_DIR}/peeragent/lib/slime-agent.pc.in)
	slime_install_pc(${PROJECT_SOURCE_DIR}/pages/slime-pages.pc.in)
	slime_install_package()
endif()

foreach(program nanoctrl peeragent slime-bench slime-cache slime-tool)
	if(TARGET ${program})
		install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
	endif()
endforeach()

# What completes their command lines in shells: they print it themselves.
set(SLIME_ZSHDIR share/zsh/site-functions CACHE STRING "folder of completions for zsh")
function(slime_install_completion program shell file)
	set(made ${CMAKE_BINARY_DIR}/completion/${file})
	get_filename_component(folder ${made} DIRECTORY)
	install(CODE "
		file(MAKE_DIRECTORY ${folder})
		execute_process(COMMAND $<TARGET_FILE:${program}> --completion=${shell} OUTPUT_FILE ${made} COMMAND_ERROR_IS_FATAL ANY)
		file(INSTALL ${made} DESTINATION \${CMAKE_INSTALL_PREFIX}/${ARGN})")
endfunction()
if(NOT CMAKE_CROSSCOMPILING)
	foreach(program nanoctrl peeragent slime-bench slime-cache)
		if(TARGET ${program})
			slime_install_completion(${program} bash bash/${program} share/bash-completion/completions)
			slime_install_completion(${program} zsh zsh/_${program} ${SLIME_ZSHDIR})
			slime_install_completion(${program} fish fish/${program}.fish share/fish/vendor_completions.d)
		endif()
	endforeach()
	# The library is the target of the program's name.
	if(TARGET slime-tool)
		slime_install_completion(slime-tool bash bash/slime share/bash-completion/completions)
		slime_install_completion(slime-tool zsh zsh/_slime ${SLIME_ZSHDIR})
		slime_install_completion(slime-tool fish fish/slime.fish share/fish/vendor_completions.d)
	endif()
endif()

# Documents, example configurations and lessons keep their paths, so that what refers to one finds it.
foreach(folder docs configs libslime/examples peeragent/examples pages/examples)
	get_filename_component(parent ${folder} DIRECTORY)
	install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${parent}
		PATTERN man EXCLUDE PATTERN CMakeLists.txt EXCLUDE)
endforeach()
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The programs of slime-bench rpc --baseline, which finds them from its own place (bench/rpc/baseline.c). Those that are
# compiled are there where their libraries were.
set(SLIME_BASELINESDIR ${CMAKE_INSTALL_LIBEXECDIR}/slime/bench/baselines)
install(PROGRAMS bench/baselines/baseline-ray bench/baselines/baseline-pulsing bench/baselines/setup.sh
	DESTINATION ${SLIME_BASELINESDIR})
install(FILES bench/baselines/sweep.py bench/baselines/ray_actor.py DESTINATION ${SLIME_BASELINESDIR})
foreach(program baseline-zeromq baseline-grpc)
	if(TARGET ${program})
		install(TARGETS ${program} RUNTIME DESTINATION ${SLIME_BASELINESDIR} OPTIONAL)
	endif()
endforeach()

# A page's section is the end of its name.
foreach(section 1 3 5 7 8)
	file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.${section})
	install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
