// A small hash (FNV-1a, 64 bits) for telling texts apart: studies, presets, manifests. Not cryptographic.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tessera {

inline std::uint64_t text_hash(std::string_view text, std::uint64_t seed = 0xcbf29ce484222325ull) {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return seed;
}
inline std::string hash_text(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

}  // namespace tessera
