#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every planted fault through the whole path: seen, named, confirmed, reproducible by the printed line, and alone."""
import concurrent.futures
import re
import shutil

import e2e
from e2e import SMALL, TINY

# Case -> faults it must expose -> label. Exact data where that shows the fault, so nothing can hide in noise.
CONVT = "g1:conv_transpose1d:"
WRONG, NAN_LEAK, OUTSIDE = "WRONG", "NAN-LEAK", "OUT-OF-BOUNDS"
VALUE_FAULTS = {
    SMALL: {
        "zero_element": WRONG, "one_ulp": WRONG, "one_ulp_in_noise": WRONG, "nan_element": NAN_LEAK, "all_nan": NAN_LEAK,
        "all_zero": WRONG, "all_scaled": WRONG, "bitflip_31": WRONG, "bitflip_30": WRONG, "bitflip_23": WRONG,
        "bitflip_22": WRONG, "bitflip_16": WRONG, "bitflip_12": WRONG, "bitflip_8": WRONG, "bitflip_4": WRONG,
        "bitflip_0": WRONG, "rows_swapped": WRONG, "one_lane": WRONG, "tile_unwritten": "UNWRITTEN", "tile_transposed": WRONG,
        "c_read_at_beta_zero": NAN_LEAK, "stale_second_call": WRONG, "repeat_differs": WRONG},
    "g1:gemm:m=16,n=160,k=64,alpha=2,fill=integer": {"alpha_lost_from_column_128": WRONG},
    "g1:gemm:m=80,n=80,k=64,alpha=-2,beta=1,fill=integer": {"alpha_lost_beyond_tile": WRONG},
    "g1:gemm:m=16,n=12,k=32,batch=3,fill=integer": {"batch_stride_ignored": WRONG},
    "g1:gemm:m=48,n=40,k=256,fill=integer": {"last_k_lost": WRONG, "last_32_k_lost": WRONG, "k_slice_doubled": WRONG},
    "g1:gemm:m=48,n=40,k=256,in=bf16,out=f32": {"split_k4_bf16": WRONG, "accumulator_bf16_every_32": WRONG},
    "g1:gemm:m=48,n=40,k=256,in=f16,out=f32": {"split_k4_fp16": WRONG},
    "g1:gemm:m=16,n=24,k=64,in=bf16,out=f32": {"accumulator_bf16": WRONG},
    "g1:gemm:m=16,n=24,k=64,in=f16,out=f32": {"accumulator_fp16": WRONG},
    "g1:gemm:m=48,n=40,k=256,fill=reveal": {
        "operands_tf32": WRONG, "operands_tf32_truncated": WRONG, "operands_bf16": WRONG, "operands_fp16": WRONG},
    "g1:gemm:m=24,n=20,k=64,in=f64": {"fp64_in_fp32": WRONG},
    "g1:gemm:m=8,n=8,k=16,alpha=0,beta=1,fill=nan_one": {"ab_read_at_alpha_zero": NAN_LEAK},
    "g1:gemm:m=48,n=40,k=64,beta=1,fill=integer": {"beta_ignored": WRONG},
    "g1:gemm:m=16,n=12,k=32,fill=nan_one": {"nan_swallowed": WRONG},
    "g1:gemm:m=16,n=12,k=32,fill=subnormal": {"subnormals_flushed": WRONG},
    TINY: {"write_past_end": OUTSIDE, "write_before_start": OUTSIDE, "input_overwritten": OUTSIDE},
    "g1:gemm:m=8,n=6,k=16,padc=3,fill=integer": {"write_in_gap": OUTSIDE},
    "g1:gemm:m=1,n=40,k=64,bias=1,fill=integer": {"bias_lost": WRONG},
    "g1:gemm:m=9,n=12,k=16,batch=3,bias=1,act=relu,fill=integer": {"bias_of_first_entry": WRONG},
    "g1:gemm:m=48,n=40,k=64,bias=1": {"bias_along_rows": WRONG, "bias_twice": WRONG},
    "g1:gemm:m=48,n=40,k=64,bias=1,alpha=2": {"bias_scaled": WRONG},
    "g1:gemm:m=48,n=40,k=64,bias=1,act=relu": {"relu_skipped": WRONG, "relu_before_bias": WRONG},
    "g1:gemm:m=48,n=40,k=64,bias=1,act=gelu_erf": {"gelu_tanh_for_erf": WRONG},
    "g1:gemm:m=48,n=40,k=64,in=bf16,bias=1,act=gelu_erf": {"sum_stored_before_gelu": WRONG},
    "g1:softmax:rows=32,n=40,fill=extreme": {"no_max_subtraction": NAN_LEAK, "max_from_zero": NAN_LEAK, "stale_max": NAN_LEAK},
    "g1:softmax:rows=64,n=256,fill=dyadic": {"fast_exp": WRONG},
    "g1:softmax:rows=16,n=130": {
        "rounded_exponentials": WRONG, "sum_in_bf16": WRONG, "last_element_lost": WRONG, "tail_counted": WRONG, "missing_rescale": WRONG,
        "stale_sum": WRONG, "wrong_row": WRONG, "tail_unwritten": "UNWRITTEN"},
    "g1:softmax:rows=16,n=130,padx=3": {"stride_ignored": NAN_LEAK},
    "g1:softmax:rows=16,n=130,pady=2": {"gap_written": OUTSIDE},
    "g1:softmax:rows=8,n=33,fill=all_masked": {"sentinel": WRONG},
    "g1:softmax:rows=8,n=33,fill=nan_one": {"nan_swallowed": WRONG},
    "g1:softmax:rows=32,n=40,kind=log,fill=shifted": {"shifted_log_sum": WRONG},
    "g1:softmax:rows=32,n=40,kind=log,fill=extreme": {"log_of_softmax": WRONG},
    "g1:activation:rows=16,n=67": {
        "tanh_for_erf": WRONG, "clipped": WRONG, "tail_unwritten": "UNWRITTEN", "wrong_row": WRONG},
    "g1:activation:rows=16,n=67,padx=3": {"stride_ignored": NAN_LEAK},
    "g1:activation:rows=16,n=67,pady=2": {"gap_written": OUTSIDE},
    "g1:activation:rows=16,n=67,kind=gelu_tanh": {"erf_for_tanh": WRONG, "fast_tanh": WRONG, "rounded_constant": WRONG},
    "g1:activation:rows=16,n=67,kind=silu,sigma=16": {"fast_exp": WRONG},
    "g1:activation:rows=16,n=67,kind=silu,fill=extreme": {"silu_overflow": NAN_LEAK},
    "g1:activation:rows=16,n=67,bias=1": {
        "rounded_argument": WRONG, "bias_lost": WRONG, "bias_shifted": WRONG, "bias_after": WRONG, "stale_bias": WRONG},
    "g1:activation:rows=16,n=67,kind=relu": {"tail_identity": WRONG},
    "g1:activation:rows=16,n=67,fill=masked": {"limit_lost": WRONG},
    "g1:activation:rows=16,n=67,kind=relu,fill=nan_one": {"nan_swallowed": WRONG},
    CONVT + "n=2,cin=6,cout=8,l=13,k=5,stride=3,dilation=2,padl=1,padr=3,outpad=2,groups=2,bias=1,fill=integer": {
        "dropped_tap": WRONG, "doubled_tap": WRONG, "flipped_taps": WRONG, "taps_outermost": WRONG, "weights_first_group": WRONG,
        "groups_exchanged": WRONG, "dilation_ignored": WRONG, "crop_exchanged": WRONG, "crop_shifted": WRONG,
        "outpad_unwritten": "UNWRITTEN", "outpad_empty": WRONG, "tail_unwritten": "UNWRITTEN", "bias_lost": WRONG,
        "bias_per_tap": WRONG, "bias_first_group": WRONG, "stale_accumulator": WRONG, "added_to_output": NAN_LEAK,
        "first_entry_again": WRONG, "last_frame_lost": WRONG},
    CONVT + "cin=8,cout=8,l=9,k=3,padl=1,padr=1,fill=integer": {"channels_exchanged": WRONG},
    CONVT + "cin=8,cout=8,l=9,k=3,padl=1,padr=1,fill=nan_one": {"nan_swallowed": WRONG},
    CONVT + "cin=16,cout=8,l=20,k=16,stride=8,padl=4,padr=4,bias=1,fill=integer": {"wrong_phase": WRONG, "seam_lost": WRONG},
    CONVT + "cin=3,cout=4,l=9,k=2,stride=5,outpad=4,bias=1,fill=integer": {"holes_unwritten": "UNWRITTEN"},
    CONVT + "cin=24,cout=5,l=30,k=8,stride=2,padl=3,padr=3,fill=integer": {"last_channel_lost": WRONG},
    CONVT + "cin=24,cout=5,l=30,k=8,stride=2,padl=3,padr=3,in=bf16,out=f32": {
        "columns_in_bf16": WRONG, "accumulator_in_bf16": WRONG},
    CONVT + "cin=24,cout=5,l=30,k=8,stride=2,padl=3,padr=3,fill=reveal": {"operands_in_bf16": WRONG},
    CONVT + "cin=24,cout=5,l=30,k=8,stride=2,padl=3,padr=3,gapx=3,fill=integer": {"row_gap_ignored": NAN_LEAK},
    CONVT + "cin=24,cout=5,l=30,k=8,stride=2,padl=3,padr=3,gapy=2,fill=integer": {"gap_written": OUTSIDE},
    "g1:conv1d:n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2,fill=integer": {
        "dropped_tap": WRONG, "doubled_tap": WRONG, "shifted_padding": WRONG, "flipped_taps": WRONG, "last_output_early": WRONG,
        "last_output_unwritten": "UNWRITTEN", "reads_past_row": WRONG, "edge_repeated": WRONG, "channel_tail_lost": WRONG,
        "batch_tail_repeated": WRONG, "stale_weights": WRONG},
    "g1:conv1d:n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2,layout=nlc,fill=integer": {"weights_read_channels_first": WRONG},
    "g1:conv1d:n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2,gapy=2": {"gap_written": OUTSIDE},
    "g1:conv1d:cin=6,cout=6,l=20,k=3,fill=integer": {"transposed_weights": WRONG},
    "g1:conv1d:cin=12,cout=9,l=20,k=3,groups=3,fill=integer": {"group_before": WRONG},
    "g1:conv1d:cin=5,cout=4,l=30,k=3,dilation=2,padl=4,fill=integer": {"dilation_ignored": WRONG},
    "g1:conv1d:cin=5,cout=4,l=30,k=3,bias=1,fill=integer": {"lost_bias": WRONG, "bias_of_neighbour": WRONG},
    "g1:conv1d:cin=3,cout=4,l=9,k=3,padl=1,padr=1,fill=nan_one": {"nan_swallowed": WRONG},
    "g1:conv1d:cin=24,cout=6,l=37,k=5,in=bf16,out=f32": {"accumulator_16_bits": WRONG},
    "g1:conv1d:cin=24,cout=16,l=100,k=3,bias=1,in=bf16": {"bias_rounded_twice": WRONG},
    "g1:attention:sq=6,skv=13,d=16,mask=causal": {"causal_off_by_one": WRONG, "causal_corner": WRONG},
    "g1:attention:sq=6,skv=13,d=16,mask=causal,window=3": {"window_off_by_one": WRONG},
    "g1:attention:b=3,sq=3,skv=21,d=16,lens=varied": {"length_ignored": WRONG},
    "g1:attention:b=3,sq=3,skv=21,d=16,lens=empty": {"sentinel": WRONG},
    "g1:attention:sq=6,skv=75,d=16": {
        "tail_counted": WRONG, "last_block_lost": WRONG, "unscaled": WRONG, "scale_twice": WRONG, "missing_rescale": WRONG,
        "weights_in_bf16": WRONG, "stale_accumulator": WRONG, "rows_unwritten": "UNWRITTEN"},
    "g1:attention:sq=6,skv=75,d=16,in=bf16,out=f32": {"scores_in_bf16": WRONG, "accumulator_in_bf16": WRONG},
    "g1:attention:sq=6,skv=75,d=16,lse=1": {"lse_without_max": WRONG, "lse_base_2": WRONG},
    "g1:attention:sq=12,skv=40,d=16,fill=extreme": {"no_max_subtraction": NAN_LEAK, "max_from_zero": NAN_LEAK},
    "g1:attention:hq=4,hkv=2,sq=3,skv=21,d=16": {"heads_interleaved": WRONG},
    "g1:attention:hq=3,sq=3,skv=21,d=16,bias=head": {"bias_of_head_0": WRONG, "bias_lost": WRONG},
    "g1:attention:hq=3,sq=3,skv=21,d=16,bias=head,fill=nan_one": {"nan_swallowed": WRONG},
    "g1:attention:sq=6,skv=21,d=20": {"width_tail_lost": WRONG},
    "g1:attention:sq=3,skv=21,d=16,dv=12": {"value_width": WRONG},
    "g1:layernorm:rows=16,n=130,gamma=1,beta=1,stats=1": {
        "unbiased_variance": WRONG, "beta_lost": WRONG, "neighbour_gamma": WRONG, "stale_statistics": WRONG, "last_element_lost": WRONG,
        "mean_kept": WRONG, "statistics_in_bf16": WRONG, "wrong_row": WRONG, "tail_unwritten": "UNWRITTEN",
        "rstd_holds_deviation": WRONG, "rstd_holds_inverse_variance": WRONG, "rstd_unwritten": "UNWRITTEN"},
    "g1:layernorm:rows=16,n=130,fill=offset": {"one_pass_variance": WRONG, "tail_counted": WRONG},
    "g1:layernorm:rows=16,n=130,eps=1e-3": {"eps_beside_deviation": WRONG, "eps_lost": WRONG},
    "g1:layernorm:rows=16,n=130,in=f64": {"fp64_in_fp32": WRONG},
    "g1:layernorm:rows=8,n=33,fill=nan_one": {"nan_swallowed": WRONG},
    "g1:layernorm:rows=16,n=130,gamma=1,padx=3": {"stride_ignored": NAN_LEAK},
    "g1:layernorm:rows=16,n=130,pady=2": {"gap_written": OUTSIDE},
    "g1:conv1d:n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2,fill=integer": {
        "dropped_tap": WRONG, "doubled_tap": WRONG, "shifted_padding": WRONG, "flipped_taps": WRONG, "last_output_early": WRONG,
        "last_output_unwritten": "UNWRITTEN", "reads_past_row": WRONG, "edge_repeated": WRONG, "channel_tail_lost": WRONG,
        "batch_tail_repeated": WRONG, "stale_weights": WRONG},
    "g1:conv1d:n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2,layout=nlc,fill=integer": {"weights_read_channels_first": WRONG},
    "g1:conv1d:n=2,cin=11,cout=6,l=37,k=5,padl=2,padr=2,gapy=2": {"gap_written": OUTSIDE},
    "g1:conv1d:cin=6,cout=6,l=20,k=3,fill=integer": {"transposed_weights": WRONG},
    "g1:conv1d:cin=12,cout=9,l=20,k=3,groups=3,fill=integer": {"group_before": WRONG},
    "g1:conv1d:cin=5,cout=4,l=30,k=3,dilation=2,padl=4,fill=integer": {"dilation_ignored": WRONG},
    "g1:conv1d:cin=5,cout=4,l=30,k=3,bias=1,fill=integer": {"lost_bias": WRONG, "bias_of_neighbour": WRONG},
    "g1:conv1d:cin=3,cout=4,l=9,k=3,padl=1,padr=1,fill=nan_one": {"nan_swallowed": WRONG},
    "g1:conv1d:cin=24,cout=6,l=37,k=5,in=bf16,out=f32": {"accumulator_16_bits": WRONG},
    "g1:conv1d:cin=24,cout=16,l=100,k=3,bias=1,in=bf16": {"bias_rounded_twice": WRONG},
}

# Fault -> what the one sentence must say.
CONDUCT_FAULTS = {
    "segfault": "SIGSEGV", "hang": "did not return within", "exit_call": "exit code 0", "sigfpe": "SIGFPE", "sigill": "SIGILL",
    "heap_scribbled": "process", "memory_exhausted": "out of memory", "rounding_left_changed": "rounding up",
    "flush_left_on": "flush-to-zero on", "read_past_end": "SIGSEGV"}
AT_THE_END = TINY + ",place=end"  # reading past the end of A meets an unmapped page


def planted(names):
    return [f"planted:{name}" for name in names]


class EveryFaultIsTested(e2e.EndToEnd):
    def test_the_tables_here_name_every_fault_of_the_program(self):
        listed = set(re.findall(r"^ +planted:(\w+)$", self.assay("list", "targets").out, re.MULTILINE))
        tested = {name for faults in VALUE_FAULTS.values() for name in faults} | set(CONDUCT_FAULTS)
        self.assertEqual(listed, tested)


class WrongValues(e2e.EndToEnd):
    def check(self, case, faults):
        got = self.run_cases([*planted(faults), "eigen"], [case])
        self.assert_code(got, 1)
        self.assertRegex(got.last, r"^FAIL: .*\(confirmed\); no GPU was probed\. Next: assay run ")
        self.assert_valid()
        records = self.by_target()
        self.assertEqual(records["eigen"]["verdict"], "pass", "a correct target beside it")
        commands = e2e.reproducers(self.report())
        for name, label in faults.items():
            with self.subTest(fault=name):
                record = records["planted:" + name]
                self.assertEqual((record["verdict"], record["label"]), ("fail", label), record["reason"])
                self.assertEqual((record["confirmation"]["runs"], record["confirmation"]["failed"]), (3, 3))
                self.assertIn(f"assay run --target planted:{name} --case '{record['case']}'", commands)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for command, again in zip(commands, pool.map(lambda c: self.shell(c + f" --out {abs(hash(c))}"), commands)):
                with self.subTest(command=command):
                    self.assert_code(again, 1)

    def test_each_is_a_confirmed_failure_with_its_label_and_a_line_that_reproduces_it(self):
        for case, faults in VALUE_FAULTS.items():
            with self.subTest(case=case):
                self.check(case, faults)
                shutil.rmtree(self.folder / "run")

    def test_one_unit_in_the_last_place_inside_accumulation_noise_is_the_only_one_excused(self):
        self.assert_code(self.run_cases(["planted:one_ulp_in_noise"], ["g1:gemm:m=48,n=40,k=64"]), 0)


class WrongConduct(e2e.EndToEnd):
    def test_each_costs_one_record_and_the_run_goes_on(self):
        got = self.run_cases([*planted(CONDUCT_FAULTS), "eigen"], [AT_THE_END], "--deadline", "0.5")
        self.assert_code(got, 1)
        self.assert_valid()
        records = self.by_target()
        self.assertEqual(records.pop("eigen")["verdict"], "pass", "after ten processes have died")
        self.assertEqual(set(records), set(planted(CONDUCT_FAULTS)))
        for name, words in CONDUCT_FAULTS.items():
            with self.subTest(fault=name):
                record = records["planted:" + name]
                self.assertEqual((record["verdict"], record["confirmation"]["failed"]), ("fault", 3), record["reason"])
                if not e2e.is_sanitized():
                    self.assertIn(words, record["reason"])
                self.assertIn(f"assay run --target planted:{name} ", "\n".join(e2e.reproducers(self.report())))

    def test_a_case_that_the_fault_does_not_touch_passes_on_the_same_target(self):
        # The read past the end hurts only where a guard page lies there.
        got = self.run_cases(["planted:read_past_end"], [TINY, AT_THE_END, SMALL])
        self.assert_code(got, 1)
        self.assertEqual([r["verdict"] for r in self.records()], ["pass", "fault", "pass"])

    def test_the_printed_line_reproduces_a_crash(self):
        got = self.run_cases(["planted:segfault"], [TINY])
        again = self.shell(e2e.next_command(got) + " --out again")
        self.assert_code(again, 1)
        self.assertEqual([r["verdict"] for r in self.records("again")], ["fault"])

    def test_a_target_that_dies_every_time_is_given_up_and_says_so(self):
        cases = [f"g1:gemm:m={m},n=6,k=16,fill=integer" for m in range(1, 14)]
        self.assert_code(self.run_cases(["planted:exit_call", "eigen"], cases), 1)
        verdicts = [r["verdict"] for r in self.records() if r["target"] == "planted"]
        self.assertEqual(verdicts, ["fault"] * 10 + ["unavailable"] * 3)
        self.assertEqual([r["verdict"] for r in self.records() if r["target"] == "eigen"], ["pass"] * 13)
        self.assertIn("10 calls in a row", self.records()[-2]["reason"])


class TheSimulatedDevice(e2e.EndToEnd):
    """Own address space, asynchronous queue, late sticky errors: the interface that a GPU library will use."""

    CASES = ["g1:gemm:m=24,n=20,k=48,fill=reveal", "g1:gemm:m=24,n=20,k=256,fill=reveal", "g1:gemm:m=24,n=20,k=48",
             "g1:gemm:m=7,n=5,k=33,order=row,ta=t,in=bf16,out=f32,fill=integer"]

    def verdicts(self, variant, cases, code, *more):
        got = self.run_cases(["sim" + variant, "eigen"], cases, *more)
        self.assert_code(got, code)
        self.assert_valid()
        self.assertEqual({r["verdict"] for r in self.records() if r["target"] == "eigen"}, {"pass"})
        return [r for r in self.records() if r["target"] == "sim"]

    def test_passes_where_it_is_right_and_reports_the_algorithm_it_chose_late(self):
        records = self.verdicts("", self.CASES, 0)
        self.assertEqual([r["verdict"] for r in records], ["pass"] * 4)
        self.assertEqual([r["algorithm"] for r in records], ["direct", "split_k", "direct", "direct"])
        self.assertIn("4 split-K partials", records[1]["arithmetic"])
        self.assertEqual({r["conditions"]["library device"] for r in records}, {"simulated"})

    def test_a_late_sticky_error_is_a_fault_and_a_new_process_starts_clean(self):
        records = self.verdicts(":late_error", self.CASES, 1)
        self.assertEqual([r["verdict"] for r in records], ["fault"] * 4)
        for record in records:
            self.assertIn("while copying from the device", record["reason"], "found late, and not left over from the case before")

    def test_a_launch_failure_is_a_fault(self):
        self.assertEqual([r["verdict"] for r in self.verdicts(":launch_failure", self.CASES, 1)], ["fault"] * 4)

    def test_a_hanging_queue_is_a_fault_after_the_deadline(self):
        (record,) = self.verdicts(":hang", self.CASES[:1], 1, "--deadline", "0.3")
        self.assertEqual(record["verdict"], "fault")
        self.assertIn("did not return", record["reason"])

    def test_tf32_under_a_declaration_of_fp32_is_wrong(self):
        records = self.verdicts(":late_wrong", self.CASES[:3], 1)
        self.assertEqual([r["verdict"] for r in records], ["fail"] * 3)
        self.assertTrue(all(r["arithmetic"].startswith("fp32 operands") for r in records), "as declared")

    def test_a_dirty_workspace_and_a_faulty_copy_are_wrong(self):
        for variant in (":workspace_dirty", ":copy_fault"):
            with self.subTest(variant=variant):
                self.assertEqual({r["verdict"] for r in self.verdicts(variant, self.CASES[:2], 1)}, {"fail"})
                shutil.rmtree(self.folder / "run")


class TheSelftest(e2e.EndToEnd):
    def test_one_seed_of_each_fault_and_model_passes(self):
        got = self.assay("selftest", "--seeds", "1", "--clean-seeds", "1")
        self.assert_code(got, 0)
        self.assertRegex(got.last, r"^selftest passed: \d+ of \d+ planted faults caught, 0 faults below the promise, "
                                   r"0 false alarms in [1-9]\d* correct runs, 0 mistrusted")
        for name in (n for faults in VALUE_FAULTS.values() for n in faults):
            self.assertRegex(got.out, rf"(?m)^  {name} ")


if __name__ == "__main__":
    e2e.main()
