// SPDX-License-Identifier: Apache-2.0
// "model": a whole gemm whose dot products are done by a correct accumulation model. It must never be flagged.
#include <fmt/format.h>

#include <array>

#include "probes/ops/gemm/blas.hpp"
#include "reference/models/accumulate.hpp"

namespace assay::gemm {

namespace {

/// Operands that the model's unit can hold. Units for fp32 and wider multiply any narrower operand exactly;
/// V100 (the fp16 model) has no bf16 path, the later tensor cores have both.
bool takes(const models::Model& model, DType in) {
  if (model.arithmetic.accumulator == DType::f64) return in == DType::f64;
  if (in == DType::f64 || is_integer(in)) return false;
  if (model.arithmetic.accumulation != Accumulation::tensor_core) return true;
  if (model.arithmetic.operand == DType::tf32) return in == DType::f32;
  if (format(model.arithmetic.operand).bits == 8) return in == DType::e4m3 || in == DType::e5m2;
  return in == DType::f16 || (in == DType::bf16 && model.arithmetic.operand == DType::bf16);
}

class ModelCall final : public assay::Call {
 public:
  ModelCall(const Problem& p, const models::Model& model) : problem_(p), call_(call_of(p)), model_(model) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }

  void execute() override {
    for (std::int64_t i = 0; i < call_.batch; ++i) one(call_.pointer_array ? pointer_order(i, call_.batch) : i);
  }

  void store(Images) override {}

  CallReport report() override {
    CallReport r{.arithmetic = model_.arithmetic,
                 .contract = full_contract("model"),
                 .algorithm = std::string(model_.name),
                 .facts = {}};
    // A tensor-core model multiplies whatever 16-bit or 8-bit format it is given.
    if (r.arithmetic.accumulation == Accumulation::tensor_core && r.arithmetic.operand != DType::tf32)
      r.arithmetic.operand = call_.in;
    r.arithmetic.output = call_.out;
    r.facts["source"] = std::string(model_.source);
    return r;
  }

 private:
  void one(std::int64_t entry) {
    const auto [m, n, k] = std::array{call_.m, call_.n, call_.k};
    std::vector<double> a, b;
    if (reads_ab(call_)) {
      a = read_matrix(call_.in, images_[0].storage, layout_a(call_, problem_), entry, m, k);
      b = read_matrix(call_.in, images_[1].storage, layout_b(call_, problem_), entry, k, n);
      for (std::vector<double>* values : {&a, &b})
        for (double& x : *values) x = models::operand_value(model_, x);
    }
    const Layout c = layout_c(call_, problem_);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        std::byte* at = element(call_.out, images_[2].storage, c.at(entry, i, j));
        const double sum = reads_ab(call_) ? model_.dot(a.data() + i * k, 1, b.data() + j, n, k) : 0.0;
        const double addend = reads_c(call_) ? decode(call_.out, load_bits(call_.out, at)) : 0.0;
        const double biased = with_bias(call_, scaled(call_, sum, addend), bias_of(problem_, images_, entry, j));
        store_bits(call_.out, at, encode(call_.out, finished(call_, biased)));
      }
  }

  Problem problem_;
  gemm::Call call_;
  const models::Model& model_;
  std::vector<Image> images_;
};

std::optional<std::string> refuses(const Problem& p, const TargetSpec& spec) {
  const models::Model* model = models::find_model(spec.variant);
  if (model == nullptr) {
    std::string known;
    for (const models::Model& m : models::all_models()) known += fmt::format("{}{}", known.empty() ? "" : ", ", m.name);
    return fmt::format("target model has no variant \"{}\"; name one as model:NAME, with NAME one of {}", spec.variant, known);
  }
  if (const DType in = p.operands[0].dtype; !takes(*model, in))
    return fmt::format("model {} does not take {} operands", model->name, name(in));
  // What is left of a cancelling sum, of subnormal products, or of the negative side of a GELU, is no more than TF32 operands
  // may lose: such a case could not fail, and is judged mistrusted.
  const std::string& fill = p.id.word("fill");
  const bool gelu = call_of(p).activation == Activation::gelu_erf || call_of(p).activation == Activation::gelu_tanh;
  if (model->arithmetic.operand == DType::tf32 && (fill == "cancel" || fill == "subnormal" || fill == "underflow" || gelu))
    return fmt::format("model {} keeps 11 bits of an operand, too few for what such a case leaves", model->name);
  return std::nullopt;
}

}  // namespace

Target model_target() {
  std::vector<std::string> names;
  for (const models::Model& m : models::all_models()) names.emplace_back(m.name);
  return {.name = "model",
          .summary = "correct accumulation models (model:NAME): must never be flagged",
          .refuses = refuses,
          .prepare = [](const Problem& p, const TargetSpec& spec) -> std::unique_ptr<assay::Call> {
            if (const auto reason = refuses(p, spec)) throw Unsupported(*reason);
            return std::make_unique<ModelCall>(p, *models::find_model(spec.variant));
          },
          .variants = names};
}

std::vector<std::string> clean_cases() {
  // Every input family in fp32 and with 16-bit operands, the smallest shapes, fp64, 16-bit outputs, both orders, all four
  // transpositions, loose leading dimensions, batches, alpha and beta. m and n are tiny so that 100 seeds of all models stay
  // cheap.
  std::vector<std::string> ids;
  for (const char* rest : {
           // smallest shapes
           "m=1,n=1,k=1,fill=integer",
           "m=1,n=1,k=1,fill=normal",
           "m=1,n=1,k=2,in=bf16,fill=uniform",
           "m=1,n=9,k=2,in=f16,out=f32,fill=normal,order=row",
           "m=9,n=1,k=3,fill=two_level",
           "m=1,n=1,k=1000,in=f16,fill=normal",
           "m=1,n=1,k=3,in=f64,fill=normal",
           "m=3,n=2,k=0,fill=normal,beta=0.5",
           // 8-bit operands
           "m=4,n=5,k=96,in=e4m3,out=f32,fill=integer",
           "m=4,n=9,k=160,in=e4m3,out=bf16,fill=normal,ta=t",
           "m=5,n=4,k=64,in=e5m2,out=f32,fill=normal,order=row",
           "m=8,n=8,k=65,in=e5m2,out=f16,fill=uniform,alpha=0.5",
           "m=3,n=5,k=257,in=e4m3,out=f32,fill=reveal",
           // fp32, every family
           "m=4,n=5,k=300,fill=integer,alpha=2,beta=-1,ta=t",
           "m=3,n=5,k=257,fill=reveal,tb=t",
           "m=5,n=7,k=64,fill=position,order=row,ta=t",
           "m=3,n=3,k=1000,fill=ones",
           "m=3,n=5,k=255,fill=sign,order=row,tb=t",
           "m=3,n=3,k=1000,fill=normal",
           "m=8,n=9,k=64,fill=normal,alpha=1.25,beta=0.75,order=row,pada=3,padb=1,padc=2",
           "m=2,n=4,k=700,fill=uniform,alpha=-0.3",
           "m=8,n=8,k=128,fill=heavy",
           "m=8,n=8,k=96,fill=wide,ta=t,tb=t",
           "m=4,n=8,k=200,fill=cancel",
           "m=2,n=4,k=1000,fill=two_level",
           "m=8,n=8,k=128,fill=two_level,alpha=0.7,beta=-1.3,order=row",
           "m=4,n=3,k=31,fill=nan_one",
           "m=4,n=5,k=33,fill=inf_one",
           "m=4,n=4,k=16,fill=subnormal",
           "m=4,n=5,k=200,fill=outlier",
           "m=4,n=5,k=130,fill=post_softmax,order=row",
           "m=5,n=4,k=80,fill=mel,tb=t",
           "m=4,n=5,k=40,fill=underflow,alpha=0.7,beta=-1.3",
           "m=5,n=7,k=64,fill=one_hot",
           "m=5,n=7,k=64,fill=one_hot,alpha=0.7,beta=0.5",
           "m=4,n=4,k=16,fill=nan_one,alpha=0,beta=2",
           "m=3,n=4,k=40,batch=3,gap=5,mode=pointers,fill=normal",
           // 16-bit operands, every family; fp32 and 16-bit outputs
           "m=4,n=5,k=300,in=bf16,out=f32,fill=integer,ta=t",
           "m=4,n=5,k=100,in=f16,fill=integer",
           "m=4,n=5,k=100,in=bf16,fill=integer,beta=1",
           "m=3,n=5,k=257,in=f16,out=f32,fill=reveal",
           "m=5,n=7,k=64,in=bf16,out=f32,fill=position",
           "m=2,n=3,k=1000,in=f16,out=f32,fill=ones",
           "m=3,n=5,k=255,in=bf16,fill=sign",
           "m=2,n=4,k=1000,in=bf16,out=f32,fill=normal",
           "m=8,n=9,k=96,in=bf16,fill=normal,alpha=1.25,beta=0.75",
           "m=8,n=9,k=96,in=f16,fill=uniform",
           "m=8,n=8,k=128,in=f16,out=f32,fill=heavy",
           "m=8,n=8,k=64,in=bf16,out=f32,fill=wide",
           "m=4,n=8,k=200,in=bf16,out=f32,fill=cancel",
           "m=2,n=4,k=1000,in=f16,out=f32,fill=two_level",
           "m=8,n=8,k=64,in=bf16,fill=two_level",
           "m=4,n=3,k=31,in=bf16,fill=nan_one",
           "m=4,n=5,k=33,in=f16,out=f32,fill=inf_one",
           "m=4,n=4,k=16,in=f16,fill=subnormal",
           "m=4,n=5,k=200,in=bf16,out=f32,fill=outlier",
           "m=3,n=5,k=1000,in=f16,fill=post_softmax",
           "m=5,n=4,k=128,in=f16,out=f32,fill=mel",
           "m=4,n=5,k=100,in=bf16,out=f32,fill=underflow",
           "m=4,n=5,k=100,in=f16,fill=underflow",
           "m=5,n=7,k=64,in=bf16,fill=one_hot,ta=t",
           // epilogues
           "m=5,n=7,k=33,bias=1,act=relu,fill=integer",
           "m=8,n=9,k=40,bias=1,act=gelu_erf,fill=normal",
           "m=4,n=5,k=64,in=bf16,bias=1,act=gelu_tanh,alpha=2,beta=1,order=row,fill=uniform",
           "m=3,n=4,k=16,batch=3,in=f16,out=f32,bias=1,fill=two_level",
           // fp64
           "m=3,n=3,k=500,in=f64,fill=normal,alpha=1.25,beta=0.75",
           "m=4,n=5,k=300,in=f64,fill=integer",
           "m=2,n=4,k=500,in=f64,fill=two_level",
           "m=8,n=8,k=64,in=f64,fill=wide",
           "m=4,n=5,k=33,in=f64,fill=inf_one",
           "m=4,n=4,k=16,in=f64,fill=subnormal",
           "m=4,n=5,k=40,in=f64,fill=underflow",
           "m=4,n=5,k=130,in=f64,fill=post_softmax",
           "m=5,n=7,k=64,in=f64,fill=one_hot,alpha=-1",
       })
    ids.push_back(std::string("g1:gemm:") + rest);
  return ids;
}

}  // namespace assay::gemm
