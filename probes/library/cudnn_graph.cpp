// SPDX-License-Identifier: Apache-2.0
// The one file that includes NVIDIA's headers: cudnn-frontend, which opens cuDNN and everything else at run time.
#include "probes/library/cudnn_graph.hpp"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <mutex>

#include "probes/library/cudnn_unguarded.hpp"
#include "probes/library/opened.hpp"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the front end asks for this name in its run-time loading mode
}

namespace assay::cudnn {

namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;
using TensorPointer = std::shared_ptr<Attributes>;

/// In a build that is not run-time loading, or with another cuDNN, these would be other numbers.
static_assert(CUDNN_VERSION >= 90800, "device properties are part of cuDNN since 9.8");

/// cuDNN gives a reason for each layer that a refusal passed through, for each engine it tried; the first one says it.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (const std::size_t first = text.find("Warning: "); first != std::string::npos) {
    const std::size_t second = text.find("Warning: ", first + 9);
    const std::size_t details = std::min(text.find('{'), first);
    text = text.substr(0, details) + text.substr(first + 9, second == std::string::npos ? second : second - first - 9);
  }
  std::string out;
  for (const char c : text)
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

/// A check of the front end itself, made before cuDNN is asked.
std::string front_end_says(const std::string& message) {
  return "cudnn-frontend " + front_end_version() + " refuses it before cuDNN is asked: " + one_line(message);
}

/// A status of cuDNN that says "not this problem", by the name the front end puts into its messages. 3000 to 3999 are
/// CUDNN_STATUS_NOT_SUPPORTED and its kinds; CUDNN_STATUS_BAD_PARAM is our mistake.
bool says_unsupported(const std::string& message) {
  return message.find("CUDNN_STATUS_NOT_SUPPORTED") != std::string::npos;
}

void check(fe::error_t e, const char* doing) {
  if (e.is_good()) return;
  const std::string said = one_line(e.get_message());
  const std::string sentence = std::string(doing) + ": " + said;
  const bool guard = e.get_code() == fe::error_code_t::GRAPH_NOT_SUPPORTED;
  // CUDA_ERROR_STUB_LIBRARY.
  if (said.find("returned error (34)") != std::string::npos) throw OnlyCompiled(sentence);
  if (guard || says_unsupported(said) || e.get_code() == fe::error_code_t::HEURISTIC_QUERY_FAILED) throw Refused(sentence);
  throw Error(sentence);
}

void check(cudnnStatus_t status, const char* doing) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string sentence =
      one_line(std::string(doing) + ": " + fe::detail::get_error_string(status) + " " + fe::detail::get_last_error_string_());
  if (static_cast<int>(status) / 1000 == 3) throw Refused(sentence);
  throw Error(sentence);
}

fe::DataType_t data_type(DType t) {
  switch (t) {
    case DType::f32:
      return fe::DataType_t::FLOAT;
    case DType::f64:
      return fe::DataType_t::DOUBLE;
    case DType::bf16:
      return fe::DataType_t::BFLOAT16;
    case DType::f16:
      return fe::DataType_t::HALF;
    case DType::i32:
      return fe::DataType_t::INT32;
    case DType::i8:
      return fe::DataType_t::INT8;
    case DType::e4m3:
      return fe::DataType_t::FP8_E4M3;
    case DType::e5m2:
      return fe::DataType_t::FP8_E5M2;
    default:
      throw Refused("cuDNN has no tensor of this format");
  }
}

fe::HeurMode_t heuristic(Mode m) {
  return m == Mode::a ? fe::HeurMode_t::A : m == Mode::b ? fe::HeurMode_t::B : fe::HeurMode_t::FALLBACK;
}

std::string note(cudnnBackendNumericalNote_t n) {
  switch (n) {
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return "tensor core";
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      return "down-converted inputs";
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      return "reduced-precision reduction";
    case CUDNN_NUMERICAL_NOTE_FFT:
      return "FFT";
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      return "nondeterministic";
    case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      return "Winograd";
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      return "Winograd 4x4";
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      return "Winograd 6x6";
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      return "Winograd 13x13";
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
      return "strict NaN propagation";
    default:
      return "numerical note " + std::to_string(static_cast<int>(n));
  }
}

std::string note(cudnnBackendBehaviorNote_t n) {
  switch (n) {
    case CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION:
      return "runtime compilation";
    case CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER:
      return "reordered int8x32 filter";
    case CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER:
      return "reordered int8x32 bias";
    case CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API:
      return "native CUDA graph";
    case CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY:
      return "cuBLASLt";
    default:
      return "behaviour note " + std::to_string(static_cast<int>(n));
  }
}

/// One list of notes of an engine. A newer library may have more than the headers know: it says how many.
template <class Note>
std::vector<std::string> notes(cudnnBackendDescriptor_t engine, cudnnBackendAttributeName_t attribute,
                               cudnnBackendAttributeType_t type) {
  std::int64_t count = 0;
  check(fe::detail::get_attribute(engine, attribute, type, 0, &count, nullptr), "asking an engine for its notes");
  std::vector<Note> list(static_cast<std::size_t>(count));
  if (count > 0)
    check(fe::detail::get_attribute(engine, attribute, type, count, &count, list.data()), "asking an engine for its notes");
  std::vector<std::string> out;
  for (Note n : list) out.push_back(note(n));
  std::sort(out.begin(), out.end());
  return out;
}

/// Opens what the heuristics and plans of the front end keep to itself.
struct OpenGraph : fe::graph::Graph {
  using fe::graph::Graph::Graph;
  fe::OperationGraph_v8& operations() { return *operation_graph; }
  fe::graph::Execution_plan_list& plan_list() { return plans; }
  const fe::graph::Execution_plan_list& plan_list() const { return plans; }
  void drop_guards() {
    for (auto& step : sub_nodes) step = std::make_shared<Unguarded>(step, context);
  }
};

/// Turns a description into calls of the front end.
class Builder {
 public:
  Builder(OpenGraph& graph, const Description& d) : graph_(graph), d_(d), made_(d.tensors.size()) {
    for (const Step& s : d.steps) add(s);
  }

 private:
  TensorPointer input(int index) {
    if (index < 0) return nullptr;
    TensorPointer& at = made_[static_cast<std::size_t>(index)];
    const Tensor& t = d_.tensors[static_cast<std::size_t>(index)];
    if (!at && t.value) {
      at = graph_.tensor(Attributes(*t.value).set_name(t.name).set_dim(t.dims).set_stride(t.strides));
    } else if (!at) {
      if (t.id == 0) throw Error("the graph reads " + t.name + " before a step makes it");
      at = graph_.tensor(Attributes().set_name(t.name).set_dim(t.dims).set_stride(t.strides).set_data_type(data_type(t.dtype)));
      at->set_uid(t.id);
    }
    return at;
  }
  TensorPointer input(const Step& s, std::size_t i) { return i < s.inputs.size() ? input(s.inputs[i]) : nullptr; }

  void output(const Step& s, std::size_t i, const TensorPointer& made) {
    if (i >= s.outputs.size() || !made) return;
    const Tensor& t = d_.tensors[static_cast<std::size_t>(s.outputs[i])];
    made->set_name(t.name).set_dim(t.dims).set_stride(t.strides).set_data_type(data_type(t.dtype)).set_output(t.id != 0);
    if (t.id != 0) made->set_uid(t.id);
    made_[static_cast<std::size_t>(s.outputs[i])] = made;
  }

  void pointwise(const Step& s, fe::PointwiseMode_t mode) {
    const auto attributes = fe::graph::Pointwise_attributes().set_mode(mode);
    output(s, 0,
           s.inputs.size() == 1 ? graph_.pointwise(input(s, 0), attributes)
                                : graph_.pointwise(input(s, 0), input(s, 1), attributes));
  }

  void add(const Step& s) {
    using Pointwise = fe::PointwiseMode_t;
    switch (s.op) {
      case Op::convolution:
        return output(s, 0,
                      graph_.conv_fprop(input(s, 0), input(s, 1),
                                        fe::graph::Conv_fprop_attributes()
                                            .set_pre_padding({0, s.pad_left})
                                            .set_post_padding({0, s.pad_right})
                                            .set_stride({1, s.stride})
                                            .set_dilation({1, s.dilation})));
      case Op::transposed_convolution:
        return output(s, 0,
                      graph_.conv_dgrad(input(s, 0), input(s, 1),
                                        fe::graph::Conv_dgrad_attributes()
                                            .set_pre_padding({0, s.pad_left})
                                            .set_post_padding({0, s.pad_right})
                                            .set_stride({1, s.stride})
                                            .set_dilation({1, s.dilation})));
      case Op::matmul:
        return output(s, 0, graph_.matmul(input(s, 0), input(s, 1), fe::graph::Matmul_attributes()));
      case Op::copy:
        return pointwise(s, Pointwise::IDENTITY);
      case Op::add:
        return pointwise(s, Pointwise::ADD);
      case Op::subtract:
        return pointwise(s, Pointwise::SUB);
      case Op::multiply:
        return pointwise(s, Pointwise::MUL);
      case Op::divide:
        return pointwise(s, Pointwise::DIV);
      case Op::relu:
        return pointwise(s, Pointwise::RELU_FWD);
      case Op::gelu_erf:
        return pointwise(s, Pointwise::GELU_FWD);
      case Op::gelu_tanh:
        return pointwise(s, Pointwise::GELU_APPROX_TANH_FWD);
      case Op::exp:
        return pointwise(s, Pointwise::EXP);
      case Op::log:
        return pointwise(s, Pointwise::LOG);
      case Op::greatest:
        return reduction(s, fe::ReductionMode_t::MAX);
      case Op::sum:
        return reduction(s, fe::ReductionMode_t::ADD);
      case Op::layernorm: {
        TensorPointer epsilon = input(s, 3);
        auto attributes = fe::graph::Layernorm_attributes().set_forward_phase(phase(s)).set_epsilon(epsilon);
        const auto made = graph_.layernorm(input(s, 0), input(s, 1), input(s, 2), attributes);
        for (std::size_t i = 0; i < 3; ++i) output(s, i, made[i]);
        return;
      }
      case Op::rmsnorm: {
        TensorPointer epsilon = input(s, 2), bias = input(s, 3);
        auto attributes = fe::graph::Rmsnorm_attributes().set_forward_phase(phase(s)).set_epsilon(epsilon);
        if (bias) attributes.set_bias(bias);
        const auto made = graph_.rmsnorm(input(s, 0), input(s, 1), attributes);
        for (std::size_t i = 0; i < 2; ++i) output(s, i, made[i]);
        return;
      }
      case Op::attention:
        return attention(s);
    }
  }

  static fe::NormFwdPhase_t phase(const Step& s) {
    return s.outputs.size() > 1 ? fe::NormFwdPhase_t::TRAINING : fe::NormFwdPhase_t::INFERENCE;
  }

  void reduction(const Step& s, fe::ReductionMode_t mode) {
    output(s, 0, graph_.reduction(input(s, 0), fe::graph::Reduction_attributes().set_mode(mode)));
  }

  void attention(const Step& s) {
    const Attention& a = s.attention;
    auto attributes = fe::graph::SDPA_attributes().set_attn_scale(a.scale).set_generate_stats(s.outputs.size() > 1);
    if (a.bias >= 0) attributes.set_bias(input(a.bias));
    if (a.key_lengths >= 0)
      attributes.set_padding_mask(true).set_seq_len_q(input(a.query_lengths)).set_seq_len_kv(input(a.key_lengths));
    if (a.left || a.right)
      attributes.set_diagonal_alignment(a.bottom_right ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                                                       : fe::DiagonalAlignment_t::TOP_LEFT);
    if (a.left) attributes.set_diagonal_band_left_bound(static_cast<int>(*a.left));
    if (a.right) attributes.set_diagonal_band_right_bound(static_cast<int>(*a.right));
    const auto made = graph_.sdpa(input(s, 0), input(s, 1), input(s, 2), attributes);
    output(s, 0, made[0]), output(s, 1, made[1]);
  }

  OpenGraph& graph_;
  const Description& d_;
  std::vector<TensorPointer> made_;
};

/// Handles are made once per device context and stay: closing one waits for the device.
cudnnHandle_t handle_of_context() {
  static std::mutex mutex;
  static cudnnHandle_t handle = nullptr;
  const std::lock_guard lock(mutex);
  if (handle != nullptr) return handle;
  if (const cudnnStatus_t status = fe::detail::create_handle(&handle); status != CUDNN_STATUS_SUCCESS)
    throw LibraryError(
        "cuDNN does not start on this device with this driver: " +
        one_line(std::string(fe::detail::get_error_string(status)) + " " + fe::detail::get_last_error_string_()));
  return handle;
}

}  // namespace

std::string absent() {
  return {};
}

std::string front_end_version() {
  return std::to_string(CUDNN_FRONTEND_MAJOR_VERSION) + "." + std::to_string(CUDNN_FRONTEND_MINOR_VERSION) + "." +
         std::to_string(CUDNN_FRONTEND_PATCH_VERSION);
}

const Library& Library::open(const std::string& cudnn, const std::string& driver) {
  static std::mutex mutex;
  static std::unique_ptr<Library> opened;
  const std::lock_guard lock(mutex);
  if (opened && opened->path_ == cudnn) return *opened;
  if (opened) throw LibraryError("cuDNN was opened from " + opened->path_ + "; another file needs a process of its own");
  open_exactly(driver);
  void* const handle = open_exactly(cudnn);
  for (const char* needed : {"cudnnGetVersion", "cudnnBackendCreateDescriptor", "cudnnBackendExecute"})
    if (::dlsym(handle, needed) == nullptr)
      throw LibraryError(cudnn + " has no " + needed + ": it is no cuDNN 8 or 9; name another file");
  fe::cudnn_dlhandle = handle;
  std::unique_ptr<Library> made(new Library);
  made->path_ = cudnn, made->version_ = static_cast<std::int64_t>(fe::detail::get_backend_version());
  note_version(cudnn, "cuDNN " + made->version_text());
  opened = std::move(made);
  return *opened;
}

struct Graph::Parts {
  OpenGraph graph;
  std::shared_ptr<fe::DeviceProperties> properties;
  cudnnHandle_t handle = nullptr;
  std::string text, passed_guard;
  std::vector<Candidate> candidates;

  Parts(const Description& d, int sm) {
    // Never asked of the CUDA runtime, which is not there: the SM, and references that CUDA graphs would hold.
    graph.set_sm_version(sm).set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
    graph.set_io_data_type(fe::DataType_t::FLOAT)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    try {
      const Builder builder(graph, d);
    } catch (const Refused&) {
      throw;
    } catch (const Error&) {
      throw;
    } catch (const std::runtime_error& e) {
      throw Refused(front_end_says(e.what()));  // it has no implementation for these attributes
    }
  }

  /// What the front end's checks say of it; empty: nothing. With the guards off another graph of the same description is
  /// asked: one that was refused cannot be gone on with.
  static std::string guard(OpenGraph& graph) {
    fe::error_t e = graph.validate();
    if (e.get_code() == fe::error_code_t::GRAPH_NOT_SUPPORTED) return front_end_says(e.get_message());
    check(e, "checking the graph");
    return {};
  }

  void lower(const Description& d, int sm, Guards guards) {
    if (guards == Guards::off) {
      Parts checked(d, sm);
      passed_guard = guard(checked.graph);
      if (!passed_guard.empty()) graph.drop_guards();
    }
    if (const std::string why = guard(graph); !why.empty()) throw Refused(why);
    // Now: lowering attention transposes K in place.
    nlohmann::json out;
    graph.serialize(out);
    text = out.dump();
    fe::error_t e = handle == nullptr ? graph.build_operation_graph() : graph.build_operation_graph(handle);
    if (e.get_code() == fe::error_code_t::GRAPH_NOT_SUPPORTED) throw Refused(front_end_says(e.get_message()));
    check(e, "making the graph");
  }

  int add(const fe::ManagedOpaqueDescriptor& config) {
    Candidate c;
    std::vector<std::pair<cudnnBackendKnobType_t, std::int64_t>> knobs;
    check(fe::detail::get_engine_id_and_knobs(config, c.engine, knobs), "asking a configuration for its engine");
    for (const auto& [knob, value] : knobs) c.knobs["k" + std::to_string(static_cast<int>(knob))] = value;
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (candidates[i].engine == c.engine && candidates[i].knobs == c.knobs) return static_cast<int>(i);
    const auto engine = fe::make_shared_backend_pointer(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t raw = engine->get_backend_descriptor();
    std::int64_t count = 0;
    check(fe::detail::get_attribute(config->get_backend_descriptor(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw),
          "asking a configuration for its engine");
    c.numerical = notes<cudnnBackendNumericalNote_t>(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE);
    c.behaviour = notes<cudnnBackendBehaviorNote_t>(raw, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE);
    auto mutable_config = config;
    if (fe::detail::get_workspace_size(mutable_config, c.workspace).is_bad()) c.workspace = -1;
    graph.plan_list().enqueue_engine_configs({config});
    check(graph.plan_list().query_properties(), "reading a configuration");
    candidates.push_back(std::move(c));
    return static_cast<int>(candidates.size()) - 1;
  }
};

Graph::Graph(const Library& library, const Description& d, int sm, const std::string& device_properties, Guards guards) {
  if (library.version() < 90800)
    throw Refused("cuDNN " + library.version_text() + " cannot plan for a device that is not here; that needs 9.8 or newer");
  parts_ = std::make_unique<Parts>(d, sm);
  parts_->properties = std::make_shared<fe::DeviceProperties>();
  check(parts_->properties->deserialize({device_properties.begin(), device_properties.end()}), "describing the device");
  parts_->graph.set_device_properties(parts_->properties);
  parts_->lower(d, sm, guards);
}

Graph::Graph(const Library&, const Description& d, int sm, Guards guards) : parts_(std::make_unique<Parts>(d, sm)) {
  parts_->handle = handle_of_context();
  parts_->lower(d, sm, guards);
}

Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;

const std::string& Graph::passed_guard() const {
  return parts_->passed_guard;
}

std::string Graph::json() const {
  return parts_->text;
}

std::int64_t Graph::engine_count() const {
  std::int64_t count = 0;
  check(parts_->graph.get_engine_count(count), "counting engines");
  return count;
}

std::vector<int> Graph::propose(Mode mode) {
  fe::EngineConfigList configs;
  check(fe::detail::query_cudnn_heuristics_impl(
            std::shared_ptr<fe::OperationGraph_v8>(std::shared_ptr<void>(), &parts_->graph.operations()), configs,
            {heuristic(mode)}, -1, parts_->properties),
        "asking the heuristics");
  std::vector<int> out;
  for (const auto& config : configs) out.push_back(parts_->add(config));
  return out;
}

int Graph::propose_engine(std::int64_t id) {
  fe::detail::backend_descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  check(engine.get_status(), "making an engine");
  check(fe::detail::create_engine(engine, id, parts_->graph.operations().get_raw_desc(), parts_->properties),
        "making an engine");
  auto config = fe::make_shared_backend_pointer(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  std::vector<fe::detail::backend_descriptor> no_knobs;
  check(fe::detail::create_engine_config(config, engine, no_knobs), "configuring an engine");
  return parts_->add(config);
}

const std::vector<Candidate>& Graph::candidates() const {
  return parts_->candidates;
}

void Graph::finalise(int index) {
  check(parts_->graph.build_plan_at_index(index), "finalising a plan");
  check(parts_->graph.get_workspace_size_plan_at_index(index, parts_->candidates[static_cast<std::size_t>(index)].workspace),
        "asking a plan for its workspace");
}

std::string Graph::plan_json(int index) const {
  const auto& plan = parts_->graph.plan_list().execution_plans[static_cast<std::size_t>(index)];
  if (!plan) return {};
  try {
    std::string text = plan->getJsonRepresentation();
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  } catch (const fe::cudnnException& e) {
    throw Error(one_line(e.what()));
  }
}

void Graph::execute(int index, void* stream, const std::map<std::int64_t, void*>& memory, void* workspace) const {
  check(fe::detail::set_stream(parts_->handle, static_cast<cudaStream_t>(stream)), "giving cuDNN its stream");
  std::unordered_map<std::int64_t, void*> pointers(memory.begin(), memory.end());
  check(parts_->graph.execute_plan_at_index(parts_->handle, pointers, workspace, index), "executing a plan");
}

}  // namespace assay::cudnn
