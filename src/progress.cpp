#include "src/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "tessera/space.hpp"

namespace tessera {
namespace {

constexpr double kPlainSeconds = 10;
constexpr int kBarColumns = 20;

std::string duration(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{}:{:02} min", s / 60, s % 60);
  return fmt::format("{}:{:02} h", s / 3600, s / 60 % 60);
}

}  // namespace

ProgressLine::ProgressLine(const Study& study) : study_(&study), terminal_(isatty(STDERR_FILENO) == 1), next_line_(kPlainSeconds) {}

ProgressLine::~ProgressLine() {
  if (drawn_ > 0) std::fputs("\n", stderr);
}

std::string ProgressLine::text(const Progress& p) const {
  const double share = p.share_taken;
  const std::uint64_t taken = p.units_taken - p.units_reused;
  const Counts& counts = p.own->counts();
  // Other ranks' counts are not known here; theirs are like ours, unit for unit.
  const double own_units = std::max(1.0, static_cast<double>(p.own->units()));
  const double evaluations = static_cast<double>(counts.evaluations) / own_units * static_cast<double>(taken);
  std::string out;
  if (terminal_) {
    const int full = static_cast<int>(share * kBarColumns);
    out += "[" + std::string(static_cast<std::size_t>(full), '#') + std::string(static_cast<std::size_t>(kBarColumns - full), '.') + "] ";
  }
  out += fmt::format("{:.1f} %", 100.0 * share);
  if (p.seconds > 0) out += fmt::format(", {:.3g} M evaluations/s", evaluations / p.seconds / 1e6);
  if (share > p.share_reused && share < 1)
    out += ", " + duration(p.seconds * (1 - share) / (share - p.share_reused)) + " left";
  if (counts.points > 0)
    out += fmt::format(", {:.0f} % refused", 100.0 * (1.0 - static_cast<double>(counts.feasible) / static_cast<double>(counts.points)));
  if (const BestRow* best = p.own->fastest()) {
    const Cluster& cluster = study_->clusters[best->cluster];
    const double mfu = law_mfu(static_cast<double>(study_->counts[best->architecture].non_embedding_active), study_->batches[best->batch],
                               study_->sequence, best->step_seconds, cluster.devices, cluster.peak(Precision::bf16));
    out += fmt::format(", best MFU {:.2f} %", 100.0 * mfu);
  }
  return out;
}

void ProgressLine::show(const Progress& p) {
  if (terminal_) {
    const std::string line = text(p);
    fmt::print(stderr, "\r{:<{}}", line, std::max(drawn_, line.size()));
    std::fflush(stderr);
    drawn_ = line.size();
  } else if (p.seconds >= next_line_) {
    next_line_ = p.seconds + kPlainSeconds;
    fmt::print(stderr, "{}\n", text(p));
  }
}

}  // namespace tessera
