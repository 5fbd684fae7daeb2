// DIR/manifest.json: which study, version and presets the units of a folder belong to. Written once, before the
// first unit; a resumed sweep must agree with it in everything.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/space.hpp"
#include "tessera/study.hpp"

namespace tessera {

struct Manifest {
  std::int64_t format = 1;   ///< of the folder's files
  std::string version;       ///< of the program
  std::string source;        ///< Study::source
  std::vector<std::pair<std::string, std::string>> fields;  ///< study_fields(source)
  std::vector<std::string> presets;                         ///< Study::presets
  std::string record, search;
  std::uint64_t points = 0, legal = 0, units = 0;           ///< of the space
  bool operator==(const Manifest&) const = default;
};

Manifest make_manifest(const Study&, const Space&);
std::string manifest_text(const Manifest&);  ///< JSON
std::uint64_t manifest_hash(const Manifest&);

/// Throws InputError where the file is missing or damaged.
Manifest read_manifest(const std::string& folder);
void write_manifest(const std::string& folder, const Manifest&);

/// Throws InputError naming the first field that differs, both values and the way out.
void check_same(const Manifest& stored, const Manifest& now, const std::string& folder);

}  // namespace tessera
