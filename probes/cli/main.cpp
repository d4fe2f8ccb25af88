// SPDX-License-Identifier: Apache-2.0
// assay: options in, exit code out. Nothing but main exits.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "probes/cli/commands.hpp"
#include "probes/library/library.hpp"
#include "probes/ops/case.hpp"
#include "probes/ops/target.hpp"
#include "probes/run/process.hpp"
#include "report/environment.hpp"
#include "report/jsonl.hpp"
#include "report/summary.hpp"

namespace {

constexpr const char* exit_codes =
    "Exit codes of run: 0 all required cases ran and passed; 1 a mismatch or fault was confirmed; 2 nothing could run;\n"
    "3 incomplete or interrupted; 4 flaky: one case both passed and failed; 5 passed, but not in the promised environment.\n"
    "Examples:\n"
    "  assay run                                  the quick acceptance test of every BLAS library found, under 30 s\n"
    "  assay run --level standard --tag whisper   only the Whisper shapes\n"
    "  assay run --target openblas --case 'g1:gemm:m=64,n=64,k=64,fill=integer'\n"
    "  assay run --libraries openblas=/opt/new/libopenblas.so.0\n"
    "  assay selftest                             does the tool catch planted faults, and never cry wolf?";

void on_signal(int) {
  assay::interrupted = true;
}

std::string typed(int argc, char** argv) {
  std::string text = "assay";
  for (int i = 1; i < argc; ++i) text += " " + assay::report::shell_word(argv[i]);
  return text;
}

int dispatch(int argc, char** argv) {
  using namespace assay::cli;
  CLI::App app{"Assay finds out what an accelerator or a maths library really computes, operation by operation."};
  app.footer(exit_codes);
  const auto about = assay::report::read_environment().assay;
  app.set_version_flag("--version", "assay " + about.at("version") + " (" + about.at("commit") + ", " + about.at("compiler") +
                                        ", " + about.at("build") + ")");
  app.require_subcommand(1);
  int code = 0;

  RunArguments run_args;
  run_args.command = typed(argc, argv);
  CLI::App* run_cmd = app.add_subcommand("run", "run cases on targets, judge, write a run folder");
  CLI::Option* level = run_cmd->add_option("--level", run_args.level, "quick (< 30 s), standard (~3 min) or deep (~20 min)")
                           ->check(CLI::IsMember({"quick", "standard", "deep"}))
                           ->capture_default_str();
  run_cmd->add_option("--op", run_args.ops, "only these operations");
  run_cmd->add_option("--target", run_args.targets,
                      "only targets whose name matches (shell pattern), e.g. 'openblas*', planted:zero_element");
  run_cmd->add_option("--case", run_args.cases, "exactly this case id (repeatable); without --level nothing else runs");
  run_cmd->add_option("--cases", run_args.case_files, "a case list of yours, added to the run");
  run_cmd->add_option("--tag", run_args.tags, "only cases with a tag that starts so: T01, whisper, llama");
  run_cmd->add_option("--libraries", run_args.libraries,
                      "auto; NAME=PATH: probe this library file (openblas, blis, refblas, mkl, cblas, onednn), or reach the "
                      "GPU through it (cuda, nvml, nvrtc, cudart, cublasLt, cublas, cudnn, ptxas, nvcc); FOLDER: what lies in "
                      "a toolkit or conda environment; from-python PYTHON: what its wheels brought");
  run_cmd->add_option("--device", run_args.device, "ordinal of the GPU that our kernels run on")
      ->check(CLI::Range(0, 255))
      ->capture_default_str();
  run_cmd
      ->add_option("--kernel-builds", run_args.kernel_builds,
                   "how our kernels are compiled: nvrtc-cubin, nvrtc-ptx (the driver finishes), nvrtc-ptxas, nvcc-cubin, each "
                   "with -O0 ... -O3, -fast, -lower; or all")
      ->delimiter(',');
  run_cmd->add_flag("--keep-variables", run_args.keep_variables,
                    "GPU workers keep CUDA variables that change numbers or select code (default: taken out, and listed)");
  run_cmd->add_option("--out", run_args.out, "run folder (default: assay-runs/TIME)");
  run_cmd->add_flag("--resume", run_args.resume, "continue the run in --out: what is recorded there is not run again");
  CLI::Option* random = run_cmd
                            ->add_flag("--random", run_args.random,
                                       "cases drawn at random from every operation's grammar, until --minutes are over")
                            ->excludes("--case", "--cases", "--tag", "--level", "--resume");
  run_cmd->add_option("--minutes", run_args.minutes, "how long --random goes on")
      ->needs(random)
      ->check(CLI::Range(0.01, 100000.0))
      ->capture_default_str();
  run_cmd->add_option("--seed", run_args.seed, "of --random: case k of a seed is always the same case")
      ->needs(random)
      ->capture_default_str();
  run_cmd
      ->add_option("--profile", run_args.profile,
                   "a TOML file (docs/profiles.md), or node or speech: cases, required targets, waivers, promised conditions")
      ->excludes(random);
  run_cmd->add_option("--require", run_args.require,
                      "gpu, or a pattern of targets of which one must give a result (repeatable); else the exit code is 3");
  run_cmd->add_flag("--strict", run_args.strict, "a suspect result fails the run");
  run_cmd->add_flag("--quiet", run_args.quiet, "print nothing when everything passed");
  run_cmd->add_flag("--ci", run_args.plain, "plain lines, no control codes");
  run_cmd->add_option("--deadline", run_args.deadline_s, "seconds for one call, before its size is added")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  run_cmd->callback([&] {
    run_args.level_given = level->count() > 0;
    code = run(run_args);
  });

  ListArguments list_args;
  CLI::App* list_cmd = app.add_subcommand("list", "what there is: ops, cases, targets, known defects of libraries, profiles");
  list_cmd->add_option("what", list_args.what, "ops, cases, targets, known or profiles")
      ->required()
      ->check(CLI::IsMember({"ops", "cases", "targets", "known", "profiles"}));
  list_cmd->add_option("--level", list_args.level, "cases of this level (default: all)")
      ->check(CLI::IsMember({"quick", "standard", "deep"}));
  list_cmd->add_option("--op", list_args.ops, "only these operations");
  list_cmd->add_option("--tag", list_args.tags, "only cases with a tag that starts so");
  list_cmd->add_option("--cases", list_args.case_files, "a case list of yours");
  list_cmd->add_option("--libraries", list_args.libraries, "as in run");
  list_cmd->callback([&] { code = list(list_args); });

  bool env_json = false;
  std::vector<std::string> env_libraries;
  CLI::App* env_cmd = app.add_subcommand("env", "the conditions that a run would record, and every library found");
  env_cmd->add_flag("--json", env_json, "as JSON");
  env_cmd->add_option("--libraries", env_libraries, "as in run");
  env_cmd->callback([&] { code = env(env_libraries, env_json); });

  PlanArguments plan_args;
  CLI::App* plan_cmd = app.add_subcommand("plan", "engines that cuDNN would offer on a GPU that need not be here");
  plan_cmd->add_option("--arch", plan_args.arch, "sm_120, or a device: rtx-5090, b200, ..., or a JSON file of its properties");
  plan_cmd->add_option("--cudnn", plan_args.cudnn, "the libcudnn.so.9 to ask (default: the one found, as in run)");
  CLI::Option* plan_level = plan_cmd->add_option("--level", plan_args.level, "cases of this level")
                                ->check(CLI::IsMember({"quick", "standard", "deep"}))
                                ->capture_default_str();
  plan_cmd->add_option("--op", plan_args.ops, "only these operations");
  plan_cmd->add_option("--tag", plan_args.tags, "only cases with a tag that starts so");
  plan_cmd->add_option("--case", plan_args.cases, "exactly this case id (repeatable); without --level nothing else is planned");
  plan_cmd->add_option("--libraries", plan_args.libraries, "as in run");
  plan_cmd->add_flag("--list-only", plan_args.quick_look, "do not make the candidates plans: faster, workspace unknown");
  plan_cmd->add_option("--plans", plan_args.plans, "make only the first N candidates of each graph plans (default: all)")
      ->check(CLI::Range(1, 1000));
  plan_cmd->add_flag("--no-guards", plan_args.no_guards,
                     "skip the checks by which cudnn-frontend keeps users from defects of a version or device");
  plan_cmd->add_flag("--json", plan_args.json, "everything, as JSON; plan diff compares two of them");
  plan_cmd->require_subcommand(0, 1);
  std::string plan_a, plan_b;
  CLI::App* diff_cmd = plan_cmd->add_subcommand("diff", "what differs between two outputs of plan --json");
  diff_cmd->add_option("a", plan_a, "output of plan --json")->required();
  diff_cmd->add_option("b", plan_b, "another")->required();
  diff_cmd->callback([&] { code = plan_diff(plan_a, plan_b); });
  plan_cmd->callback([&] {
    plan_args.level_given = plan_level->count() > 0;
    if (diff_cmd->count() == 0) code = plan(plan_args);
  });

  std::string replay_file;
  RunArguments replay_args;
  replay_args.command = typed(argc, argv);
  CLI::App* replay_cmd = app.add_subcommand("replay", "the case of a failure's tensors again, on every target");
  replay_cmd->add_option("file", replay_file, "failures/....safetensors of a run folder")->required();
  replay_cmd->add_option("--target", replay_args.targets, "as in run");
  replay_cmd->add_option("--libraries", replay_args.libraries, "as in run");
  replay_cmd->add_option("--kernel-builds", replay_args.kernel_builds, "as in run")->delimiter(',');
  replay_cmd->add_option("--device", replay_args.device, "ordinal of the GPU")
      ->check(CLI::Range(0, 255))
      ->capture_default_str();
  replay_cmd->add_option("--out", replay_args.out, "run folder (default: assay-runs/TIME)");
  replay_cmd->add_flag("--ci", replay_args.plain, "plain lines, no control codes");
  replay_cmd->callback([&] { code = replay(replay_file, replay_args); });

  FingerprintArguments print_args;
  CLI::App* print_cmd =
      app.add_subcommand("fingerprint", "how each gemm adds and multiplies, to compare builds and devices by");
  print_cmd->add_option("--target", print_args.targets, "as in run");
  print_cmd->add_option("--libraries", print_args.libraries, "as in run");
  print_cmd->add_option("--kernel-builds", print_args.kernel_builds, "as in run")->delimiter(',');
  print_cmd->add_option("--device", print_args.device, "ordinal of the GPU")->check(CLI::Range(0, 255))->capture_default_str();
  print_cmd->add_option("--deadline", print_args.deadline_s, "seconds for one call")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  print_cmd->add_flag("--deep", print_args.deep, "also every algorithm of a library one by one");
  print_cmd->add_flag("--json", print_args.json, "everything, as JSON");
  print_cmd->callback([&] { code = fingerprint(print_args); });

  SelftestArguments selftest_args;
  CLI::App* selftest_cmd = app.add_subcommand("selftest", "planted faults and correct models through the real path");
  selftest_cmd->add_option("--seeds", selftest_args.fault_seeds, "seeds per planted fault")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  selftest_cmd->add_option("--op", selftest_args.op, "only this operation");
  selftest_cmd->add_option("--clean-seeds", selftest_args.clean_seeds, "seeds per correct model")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  selftest_cmd->add_flag("--quiet", selftest_args.quiet, "only the last line");
  selftest_cmd->callback([&] { code = selftest(selftest_args); });

  add_finished_commands(app, code);

  // No group: not in --help.
  std::string digests_run;
  std::string check;
  std::vector<std::string> check_libraries;
  int check_device = 0;
  std::uint32_t check_step = 1;
  CLI::App* digests_cmd = app.add_subcommand("__digests", "")->group("");
  digests_cmd->add_option("run", digests_run)->required();
  digests_cmd->callback([&] { code = digests(digests_run); });
  CLI::App* check_cmd = app.add_subcommand("__device-check", "")->group("");
  check_cmd->add_option("what", check)->required()->check(CLI::IsMember({"inputs", "traps", "approximations"}));
  check_cmd->add_option("--libraries", check_libraries);
  check_cmd->add_option("--device", check_device);
  check_cmd->add_option("--step", check_step)->check(CLI::PositiveNumber);
  check_cmd->callback([&] { code = device_check(check, check_libraries, check_device, check_step); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
    std::fprintf(stderr, "assay: %s; see assay --help\n", e.what());
    return 2;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "__worker") return assay::worker_main();
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit then is a failed write, which the writer survives
  try {
    return dispatch(argc, argv);
  } catch (const assay::CaseError& e) {
    std::fprintf(stderr, "assay: %s\n", e.what());
  } catch (const assay::LibraryError& e) {
    std::fprintf(stderr, "assay: %s\n", e.what());
  } catch (const assay::report::FileError& e) {
    std::fprintf(stderr, "assay: %s\n", e.what());
  } catch (const assay::Unavailable& e) {
    std::fprintf(stderr, "assay: %s\n", e.what());
  } catch (const std::system_error& e) {  // of printing: a full disk, or a reader that has seen enough
    if (e.code().value() == EPIPE) return 0;
    std::fprintf(stderr, "assay: %s; the output above is cut short\n", e.what());
  } catch (const std::logic_error& e) {
    std::fprintf(stderr, "assay: a defect of assay itself: %s; please report it with the command\n", e.what());
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "assay: out of memory: choose smaller cases or a machine with more\n");
  }
  return 2;
}
