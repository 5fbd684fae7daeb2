# cmake --install: the program, its libraries and headers, a CMake package (find_package(tessera)), completion.
# Presets are compiled into the libraries, so the installed program needs no data files.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# One name for users: tessera::tessera is everything, the parts are tessera::model, tessera::search, tessera::io.
add_library(tessera_all INTERFACE)
target_link_libraries(tessera_all INTERFACE tessera_io)
set_target_properties(tessera_all PROPERTIES EXPORT_NAME tessera)
foreach(part options model search io)
  set_target_properties(tessera_${part} PROPERTIES EXPORT_NAME ${part})
endforeach()
# Headers of the parts include each other as "model/x.hpp": they are installed below one folder of their own.
set(parts_dir ${CMAKE_INSTALL_INCLUDEDIR}/tessera/parts)
target_include_directories(tessera_options INTERFACE $<INSTALL_INTERFACE:${parts_dir}>)

install(TARGETS tessera RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS tessera_all tessera_options tessera_model tessera_search tessera_io EXPORT tesseraTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
foreach(part model search io)
  install(DIRECTORY ${part} DESTINATION ${parts_dir} FILES_MATCHING PATTERN "*.hpp" PATTERN "presets" EXCLUDE)
endforeach()
install(EXPORT tesseraTargets NAMESPACE tessera:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
configure_package_config_file(cmake/tesseraConfig.cmake.in ${PROJECT_BINARY_DIR}/tesseraConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tesseraConfig.cmake ${PROJECT_BINARY_DIR}/tesseraConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(FILES src/tessera.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tessera)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
install(DIRECTORY jobs DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera
        FILES_MATCHING PATTERN "*.toml" PATTERN "*.sbatch" PATTERN "*.pbs" PATTERN "*.env")
