// A study file (TOML; docs/study-file.md lists the keys) and the changes made on the command line, read into a
// Study: presets resolved, grids expanded, guards applied. Strict: an unknown key is an error that names the
// nearest known one, and every message names file, line and key.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/study.hpp"

namespace tessera {

/// What the command line changes. An axis is a key of [plan] (tp cp pp ep etp virtual_stages micro_batch
/// recompute zero schedule precision); values are comma-separated.
struct StudyOverrides {
  std::vector<std::string> fix;     ///< "tp=8", "schedule=1f1b,interleaved": the axis takes these values only
  std::vector<std::string> forbid;  ///< "schedule=dualpipe": taken out of the axis
  std::vector<std::int64_t> nodes;    ///< replaces cluster.nodes and cluster.devices; empty: as in the file
  std::vector<std::int64_t> devices;  ///< the same for devices; not together with nodes
  std::vector<double> days;           ///< replaces window.days [days]
  std::optional<std::int64_t> top;
  std::optional<Record> record;
  std::optional<Search> search;
  bool operator==(const StudyOverrides&) const = default;
};

/// Reads, resolves and checks. Throws InputError: missing, empty or binary file, TOML syntax, unknown key, wrong
/// type, NaN, non-positive numbers, unknown preset or word, axis with no value left, no architecture left.
Study read_study(const std::string& path, const StudyOverrides& = {});
/// The same from text; `name` stands for the file in messages.
Study read_study_text(std::string_view text, const std::string& name, const StudyOverrides& = {});

/// The study that Study::source came from (file text and override lines), as manifests and results keep it.
Study restore_study(const std::string& source, const std::string& name);

/// The effective settings behind a source, one per key that is set, "cluster.nodes" -> "[32]", sorted; comments
/// and layout do not count. Two sources with equal fields are the same study.
std::vector<std::pair<std::string, std::string>> study_fields(const std::string& source, const std::string& name);

/// 16 hexadecimal digits over the fields and the presets of a study.
std::string study_hash(const Study&);

}  // namespace tessera
