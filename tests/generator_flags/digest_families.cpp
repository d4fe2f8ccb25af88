// SPDX-License-Identifier: Apache-2.0
// Prints the digest of every family, format and role on fixed shapes. Argument: the seed.

#include <cstdio>
#include <cstdlib>

#include "reference/digest.hpp"
#include "reference/inputs.hpp"

using namespace assay;

namespace {

struct Shape {
  std::int64_t batch, rows, columns;
};
constexpr Shape shapes[] = {{1, 1, 1}, {3, 7, 13}, {1, 300, 241}};
constexpr std::int64_t parallel_rows = 300;  // that shape is large enough to be drawn by several threads

struct Role {
  const char* name;
  FillRule rule;
  Access access;
  std::uint32_t stream;
};
constexpr Role roles[] = {
    {"A", {.outer_axis = 1, .inner_axis = 2, .left = true, .limit = 37}, Access::in, 1},
    {"B", {.outer_axis = 2, .inner_axis = 1, .left = false, .limit = 37}, Access::in, 2},
    {"C", {.outer_axis = 1, .inner_axis = 2, .left = true, .limit = 37}, Access::inout, 3},
};

/// Column-major for every other case, so that both orders of the walk are covered; the digest does not depend on it.
Operand operand(const Role& role, DType t, const Shape& s, bool column_major) {
  Operand o{.role = role.name, .dtype = t, .access = role.access, .stream = role.stream};
  o.dims = {s.batch, s.rows, s.columns};
  o.strides = column_major ? std::vector<std::int64_t>{s.rows * s.columns, 1, s.rows}
                           : std::vector<std::int64_t>{s.rows * s.columns, s.columns, 1};
  o.span = s.batch * s.rows * s.columns;
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  std::printf("generator version %d\n", generator_version);
  for (const Family f : all_families())
    for (const DType t : {DType::f32, DType::f64, DType::bf16, DType::f16})
      for (const Role& role : roles)
        for (const Shape& s : shapes) {
          if (s.rows == parallel_rows && t != DType::f32) continue;  // one format is enough for the threads
          const Operand o = operand(role, t, s, (s.rows + static_cast<int>(t)) % 2 != 0);
          FillRule rule = role.rule;
          rule.family = f;
          std::vector<std::byte> storage(static_cast<std::size_t>(o.span) * size_bytes(t));
          fill(o, rule, seed, storage);
          std::printf("%s %s %s %dx%dx%d %s %s\n", name(f).data(), name(t).data(), role.name, static_cast<int>(s.batch),
                      static_cast<int>(s.rows), static_cast<int>(s.columns), hex(digest_tensor(o, storage)).c_str(),
                      hex(digest_values(o, storage)).c_str());
        }
}
