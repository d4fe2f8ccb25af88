// SPDX-License-Identifier: Apache-2.0
// Which failures keep their tensors, and where.
#pragma once

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "probes/cli/folder.hpp"
#include "report/safetensors.hpp"
#include "report/summary.hpp"

namespace assay::cli {

/// Tensors of the first failure of each kind, in the folder failures.
class TensorKeeper {
 public:
  TensorKeeper(const RunFolder& folder, std::vector<std::string>& troubles) : folder_(folder), troubles_(troubles) {
    for (const report::Record& r : folder.earlier())  // of a resumed run
      if (!r.tensors.empty()) ++files_, kinds_.insert(kind(r));
  }

  bool wants(const report::Record& r, double bytes) const {
    return files_ < most_files && bytes_ + bytes <= most_bytes && !broken_ && !kinds_.contains(kind(r));
  }
  std::string keep(const report::Record& r, const report::TensorFile& file) {
    std::string target = report::full_target(r);
    for (char& c : target)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
    const std::string name = fmt::format("failures/{:03}-{}-{}.safetensors", files_ + 1, r.op, target.substr(0, 60));
    try {
      std::error_code error;
      std::filesystem::create_directory(folder_.path() / "failures", error);
      report::write_safetensors(folder_.path() / name, file);
    } catch (const report::FileError& e) {  // the records matter more
      troubles_.push_back(e.what());
      broken_ = true;
      return "";
    }
    for (const report::Tensor& t : file.tensors) bytes_ += static_cast<double>(t.bytes.size());
    ++files_, kinds_.insert(kind(r));
    return name;
  }

 private:
  static constexpr int most_files = 20;
  static constexpr double most_bytes = 256 << 20;
  static std::string kind(const report::Record& r) {
    return fmt::format("{} {} {} {}", r.op, r.formats, report::full_target(r), r.label);
  }

  const RunFolder& folder_;
  std::vector<std::string>& troubles_;
  std::set<std::string> kinds_;
  int files_ = 0;
  double bytes_ = 0;
  bool broken_ = false;
};

}  // namespace assay::cli
