#include "search/agreement.hpp"

#include "tessera/error.hpp"

namespace tessera {

Failure Failure::current() {
  Failure f;
  f.error = std::current_exception();
  try {
    throw;
  } catch (const InputError& e) {
    f.kind = input;
    f.message = e.what();
  } catch (const std::exception& e) {
    f.kind = run;
    f.message = e.what();
  }
  return f;
}

void agree(Context& context, const Failure& mine) {
  const std::int64_t ranks = context.ranks();
  const std::int64_t first = ranks - context.largest(mine.kind == Failure::none ? 0 : ranks - context.rank());
  if (first == ranks) return;
  Bytes message(mine.message.begin(), mine.message.end());
  message.push_back(static_cast<std::uint8_t>(mine.kind));
  context.broadcast(message, static_cast<int>(first));
  if (mine.error) std::rethrow_exception(mine.error);
  const auto kind = static_cast<Failure::Kind>(message.back());
  message.pop_back();
  const std::string text(message.begin(), message.end()), who = "rank " + std::to_string(first);
  if (kind == Failure::input) throw InputError(who + " cannot go on", text, "see there");
  throw RunError(who + ": " + text);
}

void together(Context& context, const std::function<void()>& action) {
  Failure failure;
  try {
    action();
  } catch (...) {
    failure = Failure::current();
  }
  context.wait_for_all();  // an action may take long on one rank: the others wait without using a processor
  agree(context, failure);
}

}  // namespace tessera
