// Errors a user can mend. Every message has three parts: PROBLEM (WHY) WHAT TO DO.
#pragma once
#include <stdexcept>
#include <string>

namespace tessera {

/// Bad usage or input: the command line ends with exit code 2 and nothing is written.
class InputError : public std::runtime_error {
 public:
  /// `problem` says what is wrong (with file, line and key where there is one), `why` why it cannot be
  /// accepted, `remedy` what to do about it. what() is "problem (why) remedy".
  InputError(const std::string& problem, const std::string& why, const std::string& remedy)
      : std::runtime_error(problem + " (" + why + ") " + remedy) {}
  /// The same error with the place it was met put before it, once: "where: problem (why) remedy".
  InputError(const std::string& where, const InputError& inner)
      : std::runtime_error(std::string(inner.what()).rfind(where, 0) == 0 ? std::string(inner.what())
                                                                          : where + ": " + inner.what()) {}
};

/// Something outside the input failed (disk full, file damaged, MPI): exit code 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tessera
