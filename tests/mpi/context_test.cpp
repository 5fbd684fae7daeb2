// The context under MPI, the same source at 1, 2 and 4 ranks. Checks are CHECK, not REQUIRE: a rank that left a
// test early would leave the others waiting in a collective call.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "world.hpp"

using namespace tessera;

namespace {

/// What every rank holds, together on rank 0 (sorted); empty elsewhere.
std::vector<std::uint64_t> gather(std::vector<std::uint64_t> mine) {
  world().reduce(
      [&] {
        Bytes bytes(mine.size() * sizeof(std::uint64_t));
        if (!bytes.empty()) std::memcpy(bytes.data(), mine.data(), bytes.size());
        return bytes;
      },
      [&](std::span<const std::uint8_t> bytes) {
        const std::size_t before = mine.size();
        mine.resize(before + bytes.size() / sizeof(std::uint64_t));
        if (!bytes.empty()) std::memcpy(mine.data() + before, bytes.data(), bytes.size());
      });
  if (world().rank() != 0) return {};
  std::sort(mine.begin(), mine.end());
  return mine;
}

}  // namespace

TEST_CASE("every unit is given to exactly one rank", "[mpi]") {
  for (const std::uint64_t count : {0u, 1u, 3u, 1000u}) {
    std::vector<std::uint64_t> units(count);
    for (std::uint64_t i = 0; i < count; ++i) units[i] = 7 * i + 3;  // ids, not positions
    std::vector<std::uint64_t> mine;
    {
      auto source = world().share(units);
      while (const auto unit = source->next()) mine.push_back(*unit);
      CHECK_FALSE(source->next());
      world().wait_for_all();
    }
    CHECK(std::is_sorted(mine.begin(), mine.end()));
    const auto all = gather(mine);
    if (world().rank() == 0) CHECK(all == units);
  }
}

TEST_CASE("a slow rank does not hold the units of the others", "[mpi]") {
  std::vector<std::uint64_t> units(200);
  std::iota(units.begin(), units.end(), 0);
  std::vector<std::uint64_t> mine;
  {
    auto source = world().share(units);
    while (const auto unit = source->next()) {
      mine.push_back(*unit);
      // The last rank takes fifty times as long for a unit.
      const bool slow = world().rank() == world().ranks() - 1;
      for (int i = 0; i < (slow ? 50 : 1); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        world().poll();
      }
    }
    world().wait_for_all();
  }
  if (world().ranks() > 1 && world().rank() == world().ranks() - 1) CHECK(mine.size() < units.size() / static_cast<std::size_t>(world().ranks()));
  const auto all = gather(mine);
  if (world().rank() == 0) CHECK(all == units);
}

TEST_CASE("closing stops everybody", "[mpi]") {
  std::vector<std::uint64_t> units(100'000);
  std::iota(units.begin(), units.end(), 0);
  std::vector<std::uint64_t> mine;
  {
    auto source = world().share(units);
    if (const auto unit = source->next()) mine.push_back(*unit);
    world().wait_for_all();
    if (world().rank() == 0) source->close();
    world().wait_for_all();
    // The shared counter ends at once; a source without one ends where its rank closes.
    if (world().rank() != 0 && source->next()) source->close();
    CHECK_FALSE(source->next());
    world().wait_for_all();
  }
  const auto all = gather(mine);
  if (world().rank() == 0) CHECK(all.size() == static_cast<std::size_t>(world().ranks()));
}

TEST_CASE("broadcast and largest", "[mpi]") {
  for (int root = 0; root < world().ranks(); ++root) {
    Bytes bytes;
    if (world().rank() == root) {
      bytes.resize(100'003);
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 31 + static_cast<std::size_t>(root));
    }
    world().broadcast(bytes, root);
    CHECK(bytes.size() == 100'003);
    bool same = true;
    for (std::size_t i = 0; i < bytes.size(); ++i) same = same && bytes[i] == static_cast<std::uint8_t>(i * 31 + static_cast<std::size_t>(root));
    CHECK(same);
  }
  CHECK(world().largest(world().rank()) == world().ranks() - 1);
  CHECK(world().largest(-5 - world().rank()) == -5);
}

TEST_CASE("a tree reduction takes everybody in once", "[mpi]") {
  const auto all = gather({static_cast<std::uint64_t>(world().rank())});
  if (world().rank() == 0) {
    std::vector<std::uint64_t> expected(static_cast<std::size_t>(world().ranks()));
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(all == expected);
  }
}
