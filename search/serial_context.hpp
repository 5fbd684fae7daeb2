// One process: no MPI.
#pragma once
#include <utility>

#include "search/context.hpp"

namespace tessera {

/// Hands out a list in order: the twin of the shared counter.
class SerialSource : public WorkSource {
 public:
  explicit SerialSource(std::vector<std::uint64_t> units) : units_(std::move(units)) {}
  std::optional<std::uint64_t> next() override {
    if (closed_ || next_ == units_.size()) return std::nullopt;
    return units_[next_++];
  }
  void close() override { closed_ = true; }
  std::uint64_t taken() const override { return next_; }

 private:
  std::vector<std::uint64_t> units_;
  std::size_t next_ = 0;
  bool closed_ = false;
};

class SerialContext : public Context {
 public:
  int rank() const override { return 0; }
  int ranks() const override { return 1; }
  int ranks_on_my_cores() const override { return 1; }
  std::unique_ptr<WorkSource> share(std::vector<std::uint64_t> units) override {
    return std::make_unique<SerialSource>(std::move(units));
  }
  void broadcast(Bytes&, int) override {}
  std::int64_t largest(std::int64_t value) override { return value; }
  void reduce(const std::function<Bytes()>&, const std::function<void(std::span<const std::uint8_t>)>&) override {}
  void wait_for_all() override {}
  void poll() override {}
};

}  // namespace tessera
