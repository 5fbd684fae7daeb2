// The keys of preset files: name, unit and meaning of every constant of a device and a stack. One table serves
// reading, printing, calibration and the documentation.
#pragma once
#include <span>
#include <string_view>

#include "tessera/cluster.hpp"

namespace tessera {

template <class T>
struct ConstantField {
  std::string_view key, unit;
  double T::*member;
  std::string_view meaning;
  bool required = false;
};
template <class T>
struct FlagField {
  std::string_view key;
  bool T::*member;
  std::string_view meaning;
};

std::span<const ConstantField<Device>> device_constants();
std::span<const ConstantField<FabricLevel>> level_constants();
std::span<const ConstantField<Stack>> stack_constants();
std::span<const FlagField<Stack>> stack_flags();

}  // namespace tessera
