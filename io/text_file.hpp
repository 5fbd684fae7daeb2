// Reading a small text file a user names.
#pragma once
#include <cstdint>
#include <string>

namespace tessera {

inline constexpr std::uintmax_t kLargestText = std::uintmax_t{64} << 20;  ///< [B] a configuration is kilobytes: more is a mix-up

/// The whole file. `what` says what it should be ("a Hugging Face config.json"). Throws InputError where it is
/// missing, a folder, unreadable, empty, binary (zero bytes) or above `largest` bytes; it is then told to do `instead`.
std::string read_text_file(const std::string& path, const std::string& what, std::uintmax_t largest = kLargestText,
                           const std::string& instead = "");

}  // namespace tessera
