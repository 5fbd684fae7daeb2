#include "io/text_file.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tessera/error.hpp"

namespace tessera {

std::string read_text_file(const std::string& path, const std::string& what, std::uintmax_t largest, const std::string& instead) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) throw InputError("cannot read " + path, "there is no such file", "check the path.");
  if (std::filesystem::is_directory(path, code)) throw InputError("cannot read " + path, "it is a folder", "give " + what + ".");
  if (const auto size = std::filesystem::file_size(path, code); !code && size > largest)
    throw InputError("cannot read " + path, "it has " + std::to_string(size) + " bytes, at most " + std::to_string(largest) + " are read",
                     instead.empty() ? "give " + what + "." : instead);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InputError("cannot read " + path, "it cannot be opened", "check its permissions.");
  std::ostringstream all;
  all << stream.rdbuf();
  std::string text = all.str();
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) throw InputError(path + " is empty", what + " is needed", "check the file.");
  if (text.find('\0') != std::string::npos) throw InputError(path + " is not a text file", "it has zero bytes", "give " + what + ".");
  return text;
}

}  // namespace tessera
