#include "io/hdf5_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <hdf5.h>

#include "tessera/error.hpp"

namespace tessera {
namespace {

// HDF5 prints its error stack by default; we turn it into exceptions instead. Nor may it close files at exit: one whose
// disk is full cannot be closed, and it then reads what it has freed.
void quiet() {
  static const bool no_exit_handler = H5dont_atexit() >= 0;
  (void)no_exit_handler;
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

extern "C" herr_t keep_first(unsigned n, const H5E_error2_t* error, void* text) {
  if (n == 0 && error->desc) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

/// The innermost message of HDF5's error stack.
std::string reason() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
  return text.empty() ? "no reason given" : text;
}

class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { reset(); }
  bool valid() const { return id_ >= 0; }
  operator hid_t() const { return id_; }
  herr_t reset() {
    const hid_t id = std::exchange(id_, -1);
    return id >= 0 ? close_(id) : 0;
  }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

Handle text_type(std::size_t width) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, std::max<std::size_t>(1, width));
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

Handle file_type(ValueType type, std::size_t width) {
  switch (type) {
    case ValueType::u8: return Handle(H5Tcopy(H5T_STD_U8LE), H5Tclose);
    case ValueType::u32: return Handle(H5Tcopy(H5T_STD_U32LE), H5Tclose);
    case ValueType::u64: return Handle(H5Tcopy(H5T_STD_U64LE), H5Tclose);
    case ValueType::i64: return Handle(H5Tcopy(H5T_STD_I64LE), H5Tclose);
    case ValueType::f32: return Handle(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
    case ValueType::f64: return Handle(H5Tcopy(H5T_IEEE_F64LE), H5Tclose);
    case ValueType::text: return text_type(width);
  }
  return {};
}

}  // namespace

std::size_t value_bytes(ValueType type, std::size_t text_width) {
  switch (type) {
    case ValueType::u8: return 1;
    case ValueType::u32:
    case ValueType::f32: return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64: return 8;
    case ValueType::text: return std::max<std::size_t>(1, text_width);
  }
  return 1;
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

// ------------------------------------------------------------------------------------------------ writer

struct Hdf5Writer::Impl {
  std::string path;
  Handle file;
  std::vector<Handle> columns;

  [[noreturn]] void fail(const std::string& what) const {
    // HDF5 says it in a line of numbers; a person needs the one word.
    const std::string why = reason();
    const bool full = why.find(std::strerror(ENOSPC)) != std::string::npos;
    throw RunError(fmt::format("{}: cannot {} ({}) free some space or choose another folder, then go on with --resume", path, what,
                               full ? "the disk is full" : why));
  }
};

Hdf5Writer::Hdf5Writer(const std::string& path) : impl_(std::make_unique<Impl>()) {
  quiet();
  impl_->path = path;
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  // The 1.10 format: every piece of metadata has a checksum, so that damage is found and not believed.
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  impl_->file = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access), H5Fclose);
  if (!impl_->file.valid()) impl_->fail("create the file");
}

Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::group(const std::string& path, const std::string& description) {
  Handle creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  Handle group(H5Gcreate2(impl_->file, path.c_str(), H5P_DEFAULT, creation, H5P_DEFAULT), H5Gclose);
  if (!group.valid()) impl_->fail("create group " + path);
  group.reset();
  attribute(path, "description", description);
}

void Hdf5Writer::attribute(const std::string& path, const std::string& name, const std::string& text) {
  Handle object(H5Oopen(impl_->file, path.c_str(), H5P_DEFAULT), H5Oclose);
  Handle type = text_type(text.size());
  Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  Handle attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute.valid() || H5Awrite(attribute, type, text.empty() ? "" : text.data()) < 0)
    impl_->fail("write attribute " + name + " of " + path);
}

void Hdf5Writer::attribute(const std::string& path, const std::string& name, std::int64_t value) {
  Handle object(H5Oopen(impl_->file, path.c_str(), H5P_DEFAULT), H5Oclose);
  Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  Handle attribute(H5Acreate2(object, name.c_str(), H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (!attribute.valid() || H5Awrite(attribute, H5T_NATIVE_INT64, &value) < 0)
    impl_->fail("write attribute " + name + " of " + path);
}

int Hdf5Writer::create(const ColumnSpec& spec, std::uint64_t rows, std::uint64_t chunk_rows) {
  const hsize_t size = rows;
  const hsize_t chunk = std::max<std::uint64_t>(1, chunk_rows);
  Handle space(H5Screate_simple(1, &size, nullptr), H5Sclose);
  Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  if (rows > 0) {
    H5Pset_chunk(creation, 1, &chunk);
    H5Pset_shuffle(creation);
    H5Pset_deflate(creation, 1);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  }
  Handle type = file_type(spec.type, spec.text_width);
  Handle column(H5Dcreate2(impl_->file, spec.path.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT), H5Dclose);
  if (!column.valid()) impl_->fail("create dataset " + spec.path);
  impl_->columns.push_back(std::move(column));
  attribute(spec.path, "unit", spec.unit);
  attribute(spec.path, "description", spec.description);
  return static_cast<int>(impl_->columns.size()) - 1;
}

void Hdf5Writer::write_chunk(int column, std::uint64_t first_row, std::span<const std::uint8_t> compressed) {
  const hsize_t offset = first_row;
  if (H5Dwrite_chunk(impl_->columns.at(static_cast<std::size_t>(column)), H5P_DEFAULT, 0, &offset, compressed.size(),
                     compressed.data()) < 0)
    impl_->fail("write a chunk");
}

void Hdf5Writer::close() {
  for (auto& column : impl_->columns)
    if (column.reset() < 0) impl_->fail("close a dataset");
  impl_->columns.clear();
  if (H5Fflush(impl_->file, H5F_SCOPE_GLOBAL) < 0) impl_->fail("write to the disk");
  if (impl_->file.reset() < 0) impl_->fail("close the file");
}

// ------------------------------------------------------------------------------------------------ reader

struct Hdf5Reader::Impl {
  std::string path;
  Handle file;
  double file_bytes = 0;

  [[noreturn]] void fail(const std::string& what, const std::string& why) const {
    throw InputError(path + ": " + what, why, "give a results.h5 written by tessera, or run the sweep again.");
  }
  Handle dataset(const std::string& name) const {
    Handle out;
    if (exists(name)) out = Handle(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
    if (!out.valid()) fail("no dataset " + name, "it is missing or damaged");
    return out;
  }
  bool exists(const std::string& name) const {
    // H5Lexists needs every intermediate group to exist.
    for (std::size_t at = 1; at != std::string::npos;) {
      at = name.find('/', at);
      if (H5Lexists(file, name.substr(0, at).c_str(), H5P_DEFAULT) <= 0) return false;
      if (at != std::string::npos) ++at;
    }
    return true;
  }
  std::uint64_t rows(hid_t dataset, const std::string& name) const {
    Handle space(H5Dget_space(dataset), H5Sclose);
    hsize_t size = 0;
    if (H5Sget_simple_extent_ndims(space) != 1 || H5Sget_simple_extent_dims(space, &size, nullptr) != 1)
      fail("dataset " + name + " has another shape", "a column has one dimension");
    // Deflate shrinks at most about 1032 to 1: a damaged size must not make us allocate without bound.
    constexpr double kMostRatio = 1100;
    Handle type(H5Dget_type(dataset), H5Tclose);
    if (static_cast<double>(size) * static_cast<double>(H5Tget_size(type)) > kMostRatio * file_bytes)
      fail("dataset " + name + " says it is larger than the file can hold", "the file is damaged");
    return size;
  }
  void read(const std::string& name, std::uint64_t first, std::uint64_t count, hid_t memory_type, void* out) const {
    Handle data = dataset(name);
    const std::uint64_t size = rows(data, name);
    if (first > size || count > size - first)
      fail("dataset " + name + " is too short", fmt::format("it has {} rows, {} are needed", size, first + count));
    if (count == 0) return;
    Handle file_space(H5Dget_space(data), H5Sclose);
    const hsize_t start = first, length = count;
    H5Sselect_hyperslab(file_space, H5S_SELECT_SET, &start, nullptr, &length, nullptr);
    Handle memory_space(H5Screate_simple(1, &length, nullptr), H5Sclose);
    if (H5Dread(data, memory_type, memory_space, file_space, H5P_DEFAULT, out) < 0)
      fail("cannot read dataset " + name, reason());
  }
};

Hdf5Reader::Hdf5Reader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  quiet();
  impl_->path = path;
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    throw InputError("cannot read " + path, "there is no such file", "check the path; a sweep ends with DIR/results.h5.");
  if (std::filesystem::is_directory(path, code))
    throw InputError("cannot read " + path, "it is a folder", "give the results.h5 inside it.");
  impl_->file_bytes = static_cast<double>(std::filesystem::file_size(path, code));
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access, false, true);  // read-only file systems and those without locks
#endif
  impl_->file = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
  if (!impl_->file.valid())
    throw InputError("cannot read " + path, "it is not a whole HDF5 file: " + reason(),
                     "give a results.h5 written by tessera, or finish it with: tessera merge DIR");
}

Hdf5Reader::~Hdf5Reader() = default;
Hdf5Reader::Hdf5Reader(Hdf5Reader&&) noexcept = default;

const std::string& Hdf5Reader::path() const { return impl_->path; }
bool Hdf5Reader::has(const std::string& dataset) const { return impl_->exists(dataset); }

std::vector<std::string> Hdf5Reader::children(const std::string& group) const {
  std::vector<std::string> names;
  if (group != "/" && !impl_->exists(group)) return names;
  auto collect = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
    static_cast<std::vector<std::string>*>(out)->emplace_back(name);
    return 0;
  };
  Handle handle(H5Gopen2(impl_->file, group.c_str(), H5P_DEFAULT), H5Gclose);
  if (handle.valid()) H5Literate(handle, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names);
  return names;
}

std::uint64_t Hdf5Reader::rows(const std::string& dataset) const {
  return impl_->rows(impl_->dataset(dataset), dataset);
}

std::uint64_t Hdf5Reader::chunk_rows(const std::string& dataset) const {
  Handle data = impl_->dataset(dataset);
  Handle creation(H5Dget_create_plist(data), H5Pclose);
  hsize_t chunk = 0;
  if (H5Pget_layout(creation) != H5D_CHUNKED || H5Pget_chunk(creation, 1, &chunk) < 0) return 0;
  return chunk;
}

ValueType Hdf5Reader::type(const std::string& dataset) const {
  Handle data = impl_->dataset(dataset);
  Handle type(H5Dget_type(data), H5Tclose);
  const std::size_t size = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_STRING: return ValueType::text;
    case H5T_FLOAT: return size == 4 ? ValueType::f32 : ValueType::f64;
    case H5T_INTEGER:
      if (size == 1) return ValueType::u8;
      if (size == 4) return ValueType::u32;
      return H5Tget_sign(type) == H5T_SGN_NONE ? ValueType::u64 : ValueType::i64;
    default: impl_->fail("dataset " + dataset + " has another type", "numbers and text are known");
  }
}

bool Hdf5Reader::has_attribute(const std::string& object, const std::string& name) const {
  return (object == "/" || impl_->exists(object)) &&
         H5Aexists_by_name(impl_->file, object.c_str(), name.c_str(), H5P_DEFAULT) > 0;
}

std::string Hdf5Reader::text_attribute(const std::string& object, const std::string& name) const {
  if (!has_attribute(object, name)) impl_->fail("no attribute " + name + " on " + object, "it is missing");
  Handle attribute(H5Aopen_by_name(impl_->file, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  Handle type(H5Aget_type(attribute), H5Tclose);
  Handle space(H5Aget_space(attribute), H5Sclose);
  if (!attribute.valid() || H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) > 0 ||
      H5Sget_simple_extent_npoints(space) != 1)
    impl_->fail("attribute " + name + " of " + object + " has another type", "a text is needed");
  std::string text(H5Tget_size(type), '\0');
  if (H5Aread(attribute, type, text.data()) < 0) impl_->fail("cannot read attribute " + name, reason());
  return std::string(text.c_str());
}

std::int64_t Hdf5Reader::integer_attribute(const std::string& object, const std::string& name) const {
  if (!has_attribute(object, name)) impl_->fail("no attribute " + name + " on " + object, "it is missing");
  Handle attribute(H5Aopen_by_name(impl_->file, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  Handle space(H5Aget_space(attribute), H5Sclose);
  Handle type(H5Aget_type(attribute), H5Tclose);
  std::int64_t value = 0;
  if (!attribute.valid() || H5Tget_class(type) != H5T_INTEGER || H5Sget_simple_extent_npoints(space) != 1 ||
      H5Aread(attribute, H5T_NATIVE_INT64, &value) < 0)
    impl_->fail("attribute " + name + " of " + object + " has another type", "a whole number is needed");
  return value;
}

void Hdf5Reader::read(const std::string& dataset, std::uint64_t first, std::span<double> out) const {
  impl_->read(dataset, first, out.size(), H5T_NATIVE_DOUBLE, out.data());
}
void Hdf5Reader::read(const std::string& dataset, std::uint64_t first, std::span<std::uint64_t> out) const {
  impl_->read(dataset, first, out.size(), H5T_NATIVE_UINT64, out.data());
}
void Hdf5Reader::read(const std::string& dataset, std::uint64_t first, std::span<std::int64_t> out) const {
  impl_->read(dataset, first, out.size(), H5T_NATIVE_INT64, out.data());
}
void Hdf5Reader::read(const std::string& dataset, std::uint64_t first, std::span<std::uint8_t> out) const {
  impl_->read(dataset, first, out.size(), H5T_NATIVE_UINT8, out.data());
}

std::vector<double> Hdf5Reader::numbers(const std::string& dataset) const {
  std::vector<double> out(rows(dataset));
  read(dataset, 0, std::span<double>(out));
  return out;
}
std::vector<std::int64_t> Hdf5Reader::integers(const std::string& dataset) const {
  std::vector<std::int64_t> out(rows(dataset));
  read(dataset, 0, std::span<std::int64_t>(out));
  return out;
}
std::vector<std::string> Hdf5Reader::texts(const std::string& dataset) const { return texts(dataset, 0, rows(dataset)); }

std::vector<std::string> Hdf5Reader::texts(const std::string& dataset, std::uint64_t first, std::uint64_t count) const {
  Handle data = impl_->dataset(dataset);
  Handle type(H5Dget_type(data), H5Tclose);
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) > 0)
    impl_->fail("dataset " + dataset + " has another type", "fixed-width text is needed");
  const std::size_t width = H5Tget_size(type);
  std::string all(width * count, '\0');
  impl_->read(dataset, first, count, type, all.data());
  std::vector<std::string> out(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const char* begin = all.data() + i * width;
    out[i].assign(begin, strnlen(begin, width));
  }
  return out;
}

}  // namespace tessera
