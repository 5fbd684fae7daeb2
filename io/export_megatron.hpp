// The arguments of Megatron-Core, each once, as the command line of Megatron-LM and as the attribute of the
// Python configuration classes that Megatron-Bridge and NeMo share with it.
#pragma once
#include <string>
#include <vector>

#include "io/export.hpp"

namespace tessera::exporting {

/// The configuration object of the Python recipes that an attribute belongs to.
enum class Group { model, parallel, train, data, precision, ddp, optimizer };

struct Setting {
  Group group;
  std::string flag;      ///< "--num-layers"; empty: not an argument of the command line
  std::string argument;  ///< its value, several separated by spaces; empty: a switch
  std::string field;     ///< "num_layers"; empty: not an attribute of the recipes
  std::string code;      ///< its value in Python
};

struct Settings {
  std::vector<Setting> list;
  std::vector<std::string> notes;
};

/// Every setting of the architecture and the plan. Throws InputError naming the field Megatron-Core cannot
/// express.
Settings megatron_settings(const ExportRequest&, std::string_view framework);

}  // namespace tessera::exporting
