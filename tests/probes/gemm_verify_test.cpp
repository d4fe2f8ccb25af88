// SPDX-License-Identifier: Apache-2.0
// Which gemms are verified instead of computed again, and what is said of them.
#include <doctest/doctest.h>

#include <cstring>

#include "probes/ops/gemm/gemm.hpp"
#include "probes/ops/op.hpp"
#include "probes/run/truth.hpp"

using namespace assay;

namespace {

/// The op's verification of what `spoil` makes of a correct result.
template <class F>
std::optional<Verified> verified(const std::string& id, F spoil) {
  Truth truth(id);
  DataSet& data = truth.first();
  data.rows.clear();
  const Expected& e = truth.expected(data)[0];
  const Operand& c = truth.problem().operands[2];
  std::vector<std::byte> output(static_cast<std::size_t>(storage_elements(c)) * size_bytes(c.dtype), std::byte{0xff});
  const auto put = [&](std::int64_t i, double x) {
    store_bits(c.dtype, output.data() + storage_index(c, i) * static_cast<std::int64_t>(size_bytes(c.dtype)),
               encode(c.dtype, x));
  };
  for (std::int64_t i = 0; i < element_count(c); ++i) put(i, e.value[static_cast<std::size_t>(i)]);
  spoil(put, e);
  const std::vector<std::span<const std::byte>> inputs(data.storage.begin(), data.storage.end());
  const Arithmetic arithmetic{.operand = c.dtype, .accumulator = DType::f32, .output = c.dtype};
  return truth.op().verify(truth.problem(), inputs, {output, arithmetic, ~std::uint64_t{0}, true});
}

constexpr auto nothing = [](auto, const Expected&) {};

}  // namespace

TEST_CASE("gemm: large products are verified, whatever their layout and scalars, and one wrong element is named") {
  for (const char* id : {"g1:gemm:m=1030,n=1100,k=1024,ta=t,padc=3,alpha=0.5,beta=-2",
                         "g1:gemm:m=512,n=1100,k=1024,batch=2,order=row,share=b"}) {
    const std::optional<Verified> good = verified(id, nothing);
    REQUIRE(good);
    CHECK(good->found.bad + good->found.over_iid == 0);
    CHECK_FALSE(good->found.rms_exceeded);
    CHECK(good->found.median_bound_over_rms > 0);
    CHECK(good->where.empty());
    const std::optional<Verified> bad =
        verified(id, [](auto put, const Expected& e) { put(700 * 1100 + 901, e.value[700 * 1100 + 901] * 1.01 + 0.1); });
    REQUIRE(bad);
    CHECK(bad->found.bad + bad->found.over_iid == 1);
    CHECK(bad->where.find("wrong element at C[") != std::string::npos);
    CHECK(bad->where.find(",901]") != std::string::npos);
  }
}

TEST_CASE("gemm: exact products are verified bit by bit") {
  const char* id = "g1:gemm:m=1030,n=1100,k=1024,fill=integer";
  CHECK(verified(id, nothing)->method == "panels:512,exact");
  const std::optional<Verified> bad = verified(id, [](auto put, const Expected& e) { put(5, e.value[5] + 1); });
  CHECK(bad->found.bad == 1);
  CHECK(bad->found.first_bad == 5);
  CHECK(bad->where == "; wrong element at C[0,0,5]");
}

TEST_CASE("gemm: small, fp64, special and rounded exact 16-bit products are compared whole, real 16-bit ones are verified") {
  CHECK(find_op("gemm").sampled_rows(make_problem("g1:gemm:m=1500,n=1500,k=1500,in=bf16")).size() == 16);
  const char* const real = "g1:gemm:m=1030,n=1100,k=1024,in=bf16";
  CHECK(verified(real, nothing)->where.empty());
  CHECK(verified(real, [](auto put, const Expected&) { put(700 * 1100 + 901, 1000); })->where ==
        "; wrong element at C[0,700,901]");

  for (const char* id : {"g1:gemm:m=1024,n=1024,k=1024", "g1:gemm:m=1500,n=1500,k=1500,in=f64",
                         "g1:gemm:m=1500,n=1500,k=1500,fill=nan_one", "g1:gemm:m=1500,n=1500,k=1500,bias=1"})
    CHECK(find_op("gemm").sampled_rows(make_problem(id)).empty());
  CHECK(find_op("gemm").sampled_rows(make_problem("g1:gemm:m=1025,n=1024,k=1024")).size() == 16);
  // Nearly every result of this fill is too large for the 8 bits of bf16: it is for the whole comparison.
  CHECK_FALSE(verified("g1:gemm:m=1030,n=1100,k=1024,in=bf16,fill=integer", nothing));
}
