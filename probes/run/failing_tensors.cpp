// SPDX-License-Identifier: Apache-2.0
#include "probes/run/failing_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "report/jsonl.hpp"

namespace assay {

namespace {

std::string_view dtype_of(DType t) {
  switch (t) {
    case DType::f64:
      return "F64";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    case DType::e4m3:
      return "F8_E4M3";
    case DType::e5m2:
      return "F8_E5M2";
    case DType::i8:
      return "I8";
    case DType::i32:
      return "I32";
    default:
      return "F32";
  }
}

std::string input_name(const Operand& o) {
  return o.access == Access::inout ? o.role + ".before" : o.role;
}

class Builder {
 public:
  void add(std::string name, std::string_view dtype, std::vector<std::int64_t> shape, std::vector<std::byte> bytes) {
    out.memory.push_back(std::move(bytes));
    out.file.tensors.push_back({std::move(name), std::string(dtype), std::move(shape), out.memory.back()});
  }
  template <class T>
  void add(std::string name, std::string_view dtype, std::vector<std::int64_t> shape, const T* values, std::size_t count) {
    const auto bytes = std::as_bytes(std::span(values, count));
    add(std::move(name), dtype, std::move(shape), std::vector<std::byte>(bytes.begin(), bytes.end()));
  }

  FailingTensors out;
};

}  // namespace

double failing_bytes(const Problem& p) {
  double bytes = 0;
  for (const Operand& o : p.operands) {
    const double elements = static_cast<double>(element_count(o));
    bytes += elements * static_cast<double>(size_bytes(o.dtype)) * (o.access == Access::inout ? 2 : 1);
    if (o.access != Access::in) bytes += elements * (o.dtype == DType::f64 ? 24 : 16);
  }
  return bytes;
}

FailingTensors failing_tensors(Truth& truth, const Measurement& m, const report::Record& r) {
  const Problem& p = truth.problem();
  DataSet& data = m.kept_second ? truth.second() : truth.first();
  Builder b;
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    const Operand& o = p.operands[i];
    if (o.access != Access::out) b.add(input_name(o), dtype_of(o.dtype), o.dims, dense(o, data.storage[i]));
  }
  for (std::size_t i = 0; i < truth.outputs().size(); ++i) {
    const Operand& o = p.operands[truth.outputs()[i]];
    b.add(o.role, dtype_of(o.dtype), o.dims, dense(o, m.kept[i]));
    if (data.expected.empty()) continue;  // verified without a truth of every element
    const Expected& e = data.expected[i];
    std::vector<std::int64_t> shape = o.dims;
    if (!e.rows.empty()) shape = {std::ssize(e.rows), e.row_length};
    b.add(o.role + ".expected", "F64", shape, e.value.data(), e.value.size());
    if (!e.value_lo.empty()) b.add(o.role + ".expected_low", "F64", shape, e.value_lo.data(), e.value_lo.size());
    const Bound& bound = truth.bounds(data, m.report.arithmetic)[i];
    if (bound.hard.size() == e.value.size()) b.add(o.role + ".bound", "F64", shape, bound.hard.data(), bound.hard.size());
    if (!e.rows.empty() && i == 0) b.add("rows", "I64", {std::ssize(e.rows)}, e.rows.data(), e.rows.size());
  }
  b.out.file.metadata = {{"schema", std::string(report::schema_version)},
                         {"case", r.case_id},
                         {"call", m.kept_second ? "second" : "first"},
                         {"target", r.target},
                         {"variant", r.variant},
                         {"library", r.library.path},
                         {"library_sha256", r.library.sha256},
                         {"verdict", std::string(report::name(r.verdict))},
                         {"label", r.label},
                         {"reason", r.reason},
                         {"arithmetic", r.arithmetic}};
  for (const Operand& o : p.operands)
    b.out.file.metadata[o.role + ".strides"] = fmt::format("{} elements, offset {}", fmt::join(o.strides, " "), o.offset);
  return std::move(b.out);
}

std::string case_of_tensors(const report::TensorFile& file, std::string_view where) {
  const auto text = [&](const char* key) {
    const auto at = file.metadata.find(key);
    if (at == file.metadata.end())
      throw report::FileError(
          fmt::format("{} has no '{}' in its metadata: it was not written by an assay run; name a file of its failures folder",
                      where, key));
    return at->second;
  };
  const std::string id = text("case");
  Truth truth(id);
  const DataSet& data = text("call") == "second" ? truth.second() : truth.first();
  for (std::size_t i = 0; i < truth.problem().operands.size(); ++i) {
    const Operand& o = truth.problem().operands[i];
    if (o.access == Access::out) continue;
    const auto t = std::ranges::find(file.tensors, input_name(o), &report::Tensor::name);
    if (t == file.tensors.end() || !std::ranges::equal(t->bytes, dense(o, data.storage[i])))
      throw report::FileError(
          fmt::format("{}: its input {} is not what this assay makes of {}: the file was changed, or another version wrote it",
                      where, input_name(o), id));
  }
  return id;
}

}  // namespace assay
