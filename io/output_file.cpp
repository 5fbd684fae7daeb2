#include "io/output_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "io/file_system.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& path) {
  const auto parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

}  // namespace

OutputFile::OutputFile(std::string option, std::string path) : option_(std::move(option)), path_(std::move(path)) {
  const auto refuse = [&](const std::string& why) {
    throw InputError("cannot write " + option_ + " '" + path_ + "'", why, "choose another file for " + option_ + ".");
  };
  std::error_code code;
  if (path_.empty()) refuse("the name is empty");
  if (fs::is_directory(path_, code)) refuse("it is a folder");
  if (fs::exists(path_, code) && ::access(path_.c_str(), W_OK) != 0) refuse(std::strerror(errno));
  const std::string folder = folder_of(path_);
  if (!fs::is_directory(folder, code)) refuse(folder + " is no folder");
  if (!fs::exists(path_, code) && ::access(folder.c_str(), W_OK | X_OK) != 0) refuse(folder + ": " + std::strerror(errno));
}

void OutputFile::write(std::string_view text) const {
  std::error_code code;
  // A link stays a link: what it points to is replaced.
  const fs::path target = fs::weakly_canonical(path_, code);
  const std::string path = code ? path_ : target.string();
  const bool is_file = !fs::exists(path, code) || fs::is_regular_file(path, code);
  try {
    if (is_file) return replace_file(path, text);
    File file(path, File::Mode::append);
    file.write({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    file.close();
  } catch (const FileError& error) {
    if (is_file) fs::remove(path + ".tmp", code);
    throw InputError("cannot write " + option_ + " '" + path_ + "'", error.reason, "free some space, or choose another file for " + option_ + ".");
  }
}

}  // namespace tessera
