// Reading a small text file a user names.
#pragma once
#include <string>

namespace tessera {

/// The whole file. `what` says what it should be ("a Hugging Face config.json"). Throws InputError where it is
/// missing, a folder, unreadable, empty, binary (zero bytes) or above 64 MiB.
std::string read_text_file(const std::string& path, const std::string& what);

}  // namespace tessera
