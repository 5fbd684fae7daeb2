# How a test is registered. Tests find the program, the tree and the launcher in their environment; exit code 77
# means skipped, with a message that says why.
set(TESSERA_SKIPPED 77)
find_program(TESSERA_MPIEXEC NAMES mpiexec.mpich mpiexec REQUIRED)
# The distribution's Python is the one that has h5py; another one on PATH may not.
find_program(TESSERA_PYTHON NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(TESSERA_PYTHON NAMES python3)

set(TESSERA_TEST_ENVIRONMENT
  "TESSERA=${PROJECT_BINARY_DIR}/tessera" "TESSERA_SOURCE_DIR=${PROJECT_SOURCE_DIR}" "TESSERA_BINARY_DIR=${PROJECT_BINARY_DIR}"
  "TESSERA_MPIEXEC=${TESSERA_MPIEXEC}" "TESSERA_PYTHON=${TESSERA_PYTHON}" "TESSERA_SANITIZE=${TESSERA_SANITIZE}"
  "UCX_LOG_LEVEL=error" "UCX_WARN_UNUSED_ENV_VARS=n" "PYTHONDONTWRITEBYTECODE=1")

function(tessera_test_properties test timeout processors)
  set_tests_properties(${test} PROPERTIES TIMEOUT ${timeout} PROCESSORS ${processors} SKIP_RETURN_CODE ${TESSERA_SKIPPED}
    ENVIRONMENT "${TESSERA_TEST_ENVIRONMENT}")
endfunction()

# tests/<part>/*.cpp as one Catch2 executable and one test.
function(tessera_unit_tests part)
  file(GLOB sources CONFIGURE_DEPENDS ${part}/*.cpp)
  if(sources)
    add_executable(test_${part} ${sources})
    target_link_libraries(test_${part} PRIVATE tessera_test_main)
    target_compile_definitions(test_${part} PRIVATE TESSERA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TESSERA_BINARY="$<TARGET_FILE:tessera>")
    add_dependencies(test_${part} tessera)
    add_test(NAME ${part} COMMAND test_${part})
    tessera_test_properties(${part} 900 1)
  endif()
endfunction()

# tests/<part>/*.cpp, with a main of its own that starts MPI, as one executable run at 1, 2 and 4 ranks.
function(tessera_mpi_tests part)
  file(GLOB sources CONFIGURE_DEPENDS ${part}/*.cpp)
  if(sources)
    add_executable(test_${part} ${sources})
    target_link_libraries(test_${part} PRIVATE Catch2::Catch2 tessera_io MPI::MPI_CXX)
    foreach(ranks 1 2 4)
      add_test(NAME ${part}_np${ranks} COMMAND ${TESSERA_MPIEXEC} -n ${ranks} $<TARGET_FILE:test_${part}>)
      tessera_test_properties(${part}_np${ranks} 600 2)
    endforeach()
  endif()
endfunction()

# tests/<part>/*.sh and *_test.py: each script is a test of its own, run in a folder of its own.
function(tessera_script_tests part)
  cmake_parse_arguments(arg "" "TIMEOUT" "" ${ARGN})
  file(GLOB shell_scripts CONFIGURE_DEPENDS ${part}/*_test.sh)
  file(GLOB python_scripts CONFIGURE_DEPENDS ${part}/*_test.py)
  foreach(script ${shell_scripts} ${python_scripts})
    get_filename_component(name ${script} NAME_WE)
    string(REGEX REPLACE "_test$" "" name ${name})
    set(test ${part}_${name})
    if(script MATCHES "\\.py$")
      if(NOT TESSERA_PYTHON)
        message(WARNING "Python 3 is missing (the test ${test} is written in it) install python3")
        continue()
      endif()
      add_test(NAME ${test} COMMAND ${TESSERA_PYTHON} ${script})
    else()
      add_test(NAME ${test} COMMAND bash ${script})
    endif()
    tessera_test_properties(${test} ${arg_TIMEOUT} 2)
  endforeach()
endfunction()
