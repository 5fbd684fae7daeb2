// The evaluating threads of a rank: units go in, results come out, in any order. The rank's main thread never
// evaluates, so that it can serve other ranks and write while its crew works.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include "search/walker.hpp"

namespace tessera {

class Crew {
 public:
  Crew(const Space&, int threads);
  /// Waits for the units in hand.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void post(std::uint64_t unit);
  std::size_t in_hand() const { return in_hand_; }  ///< posted and not taken
  /// A finished unit; waits up to a millisecond for one. Rethrows what a unit threw.
  std::optional<UnitResult> take();

 private:
  struct Done {
    UnitResult result;
    std::exception_ptr error;
  };
  void work(std::uint64_t unit);

  const Space* space_;
  tbb::global_control workers_;  ///< lets TBB have as many workers as asked for, whatever the machine has
  tbb::task_arena arena_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Done> done_;
  std::vector<std::unique_ptr<Walker>> idle_;
  std::size_t in_hand_ = 0;   ///< main thread only
  std::size_t running_ = 0;   ///< under mutex_
};

}  // namespace tessera
