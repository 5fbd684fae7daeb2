#include "search/crew.hpp"

#include <chrono>

namespace tessera {

Crew::Crew(const Space& space, int threads)
    : space_(&space),
      workers_(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads) + 1),
      arena_(threads, 0) {}

Crew::~Crew() {
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return running_ == 0; });
}

void Crew::post(std::uint64_t unit) {
  ++in_hand_;
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  arena_.enqueue([this, unit] { work(unit); });
}

void Crew::work(std::uint64_t unit) {
  std::unique_ptr<Walker> walker;
  Done done;
  try {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        walker = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!walker) walker = std::make_unique<Walker>(*space_);
    done.result = walker->run(unit);
  } catch (...) {
    done.error = std::current_exception();
    walker.reset();
  }
  const std::lock_guard lock(mutex_);
  if (walker) idle_.push_back(std::move(walker));
  done_.push_back(std::move(done));
  --running_;
  ready_.notify_one();  // under the lock: the destructor may run as soon as it is released
}

std::optional<UnitResult> Crew::take() {
  std::unique_lock lock(mutex_);
  if (!ready_.wait_for(lock, std::chrono::milliseconds(1), [this] { return !done_.empty(); })) return std::nullopt;
  Done done = std::move(done_.front());
  done_.pop_front();
  --in_hand_;
  lock.unlock();
  if (done.error) std::rethrow_exception(done.error);
  return std::move(done.result);
}

}  // namespace tessera
