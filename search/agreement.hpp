// Failures that all ranks share: a rank that threw alone would leave the others waiting in a collective call.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

#include "search/context.hpp"

namespace tessera {

/// What went wrong on this rank.
struct Failure {
  enum Kind : std::int64_t { none = 0, run = 1, input = 2 };
  Kind kind = none;
  std::string message;
  std::exception_ptr error;
  static Failure current();  ///< of the exception being handled; call it inside a catch block
};

/// Collective: throws on every rank if any rank failed. A rank that failed rethrows its own exception, the others
/// throw one of the same kind with the message of the lowest rank that failed.
void agree(Context&, const Failure& mine);

/// Runs `action` on this rank and agrees on its outcome.
void together(Context&, const std::function<void()>& action);

}  // namespace tessera
