// A small study with made-up costs: enough to write every kind of file without the cost model.
#pragma once
#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include "io/preset_reader.hpp"
#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera::fixture {

/// A folder of its own below the system's, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() / ("tessera-test-" + std::to_string(::getpid()) + "-" + std::to_string(number++));
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  std::string path() const { return path_.string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline Cluster cluster(std::int64_t devices) {
  Cluster c;
  c.name = "test";
  c.device.name = "test-device";
  c.device.peak_bf16 = 1e15;
  c.device.capacity = 80e9;
  c.fabric.name = "test-fabric";
  c.stack = Presets().stack("base");
  c.stack.name = "test-stack";
  c.devices = devices;
  c.memory_cap = 80e9;
  return c;
}

inline Law law() {
  Law l;
  l.name = "test";
  l.form = LawForm::chinchilla;
  l.coefficients = {1.7, 400, 0.34, 400, 0.28};
  l.coefficients.resize(form_info(l.form).coefficients.size(), 0.3);
  return l;
}

inline Study study(std::int64_t devices = 16) {
  Study s;
  s.title = "A study for tests";
  s.source = "title = \"A study for tests\"\n[cluster]\npreset = \"test\"\n";
  s.presets = {"cluster test 0123456789abcdef"};
  s.clusters = {cluster(devices), cluster(2 * devices)};
  s.days = {10, 20};
  s.batches = {64, 128};
  s.sequence = 2048;
  for (const std::int64_t experts : {8, 16, 32}) {
    LadderRung rung;
    rung.q = 4;
    rung.experts = experts;
    s.architectures.push_back(ladder(rung));
    s.counts.push_back(count_parameters(s.architectures.back()));
  }
  s.plan.etp.values = {1};
  s.plan.virtual_stages.values = {1};
  s.plan.micro_batch.values = {1, 2};
  s.plan.zero.values = {1};
  s.plan.schedule.values = {Schedule::one_f_one_b};
  s.plan.precision.values = {Precision::bf16};
  s.law = law();
  s.top = 10;
  return s;
}

/// A unit with costs that depend on the id alone.
inline UnitResult unit(const Space& space, std::uint64_t index) {
  UnitResult r;
  r.unit = index;
  const Unit range = space.unit(index);
  r.counts.points = range.last - range.first;
  for (std::uint64_t id = range.first; id < range.last; ++id) {
    const Digits d = space.decode(id);
    const Reason reason = space.legality(d);
    if (reason != Reason::none) {
      const auto at = static_cast<std::size_t>(reason);
      ++r.counts.refused[at];
      r.counts.sample[at] = std::min(r.counts.sample[at], id);
      continue;
    }
    std::mt19937_64 random(id);
    const auto uniform = [&] { return static_cast<float>(random() >> 40) * 0x1p-24f; };
    const bool fits = random() % 3 != 0;
    ++r.counts.evaluations;
    r.counts.feasible += fits;
    const float compute = uniform(), communication = uniform(), ramp = uniform(), host = uniform();
    r.columns.id.push_back(id);
    r.columns.status.push_back(fits ? 0 : 1);
    r.columns.step_seconds.push_back(fits ? compute + communication + ramp + host : 0.0f);
    r.columns.memory_bytes.push_back(1e11f * uniform());
    r.columns.compute_seconds.push_back(fits ? compute : 0.0f);
    r.columns.communication_seconds.push_back(fits ? communication : 0.0f);
    r.columns.ramp_seconds.push_back(fits ? ramp : 0.0f);
    r.columns.host_seconds.push_back(fits ? host : 0.0f);
    if (!fits) {
      const auto memory = static_cast<std::size_t>(Reason::memory);
      ++r.counts.refused[memory];
      r.counts.sample[memory] = std::min(r.counts.sample[memory], id);
    }
    BestRow row{d.cluster, d.batch, d.architecture, fits ? 1u : 0u, id};
    row.step_seconds = r.columns.step_seconds.back();
    row.memory_bytes = row.memory_with_reserve_bytes = r.columns.memory_bytes.back();
    row.compute_seconds = r.columns.compute_seconds.back();
    row.communication_seconds = r.columns.communication_seconds.back();
    row.ramp_seconds = r.columns.ramp_seconds.back();
    row.host_seconds = r.columns.host_seconds.back();
    const bool same = !r.best.empty() && r.best.back().cluster == d.cluster && r.best.back().batch == d.batch && r.best.back().architecture == d.architecture;
    if (!same) r.best.push_back(row);
    else if (better(row, r.best.back())) r.best.back() = row;
  }
  r.rows = r.columns.size();
  r.columns_hash = hash_columns(r.columns);
  return r;
}

}  // namespace tessera::fixture
