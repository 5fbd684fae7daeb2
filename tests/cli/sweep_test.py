"""A sweep as its users meet it: keys and identities of the JSON, the HDF5 file, flags, exit codes."""
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from program import *  # noqa: E402,F403

KEYS = {"architectures", "points", "evaluations", "feasible", "refused", "seconds", "evaluations_per_second", "units",
        "ranks", "threads", "signature", "top"}
ROW = {"rank", "window_days", "architecture", "non_embedding", "cluster", "plan", "step_seconds", "mfu", "memory_bytes",
       "memory_with_reserve_bytes", "tokens", "tokens_per_active_parameter", "model_flops", "loss"}
PLAN = {"batch", "tp", "cp", "pp", "dp", "ep", "etp", "virtual_stages", "micro_batch", "recompute", "zero", "schedule", "precision"}
PEAK_B200 = 2.25e15  # FLOP/s, dense bf16 (vendor data sheet)


class Sweep(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="tessera-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.out = Path(folder.name) / "out"
        cls.answer = run_json("sweep", SMALL, "--out", cls.out)

    def test_keys(self):
        self.assertLessEqual(KEYS, set(self.answer))
        self.assertLessEqual({"total", "reused"}, set(self.answer["units"]))
        for row in self.answer["top"]:
            self.assertLessEqual(ROW, set(row))
            self.assertLessEqual(PLAN, set(row["plan"]))
            self.assertLessEqual({"total", "active", "sparsity"}, set(row["non_embedding"]))
            self.assertLessEqual({"nodes", "devices"}, set(row["cluster"]))

    def test_counts_add_up(self):
        a = self.answer
        rules = sum(n for reason, n in a["refused"].items() if reason != "memory")
        self.assertEqual(a["points"], rules + a["evaluations"])
        self.assertEqual(a["evaluations"], a["feasible"] + a["refused"].get("memory", 0))

    def test_rows_are_consistent(self):
        envelopes = {}
        for row in self.answer["top"]:
            plan, devices = row["plan"], row["cluster"]["devices"]
            self.assertEqual(devices, plan["tp"] * plan["cp"] * plan["pp"] * plan["dp"])
            self.assertEqual(plan["tp"] * plan["cp"] * plan["dp"] % (plan["ep"] * plan["etp"]), 0)
            active, total = row["non_embedding"]["active"], row["non_embedding"]["total"]
            self.assertAlmostEqual(row["non_embedding"]["sparsity"], 1 - active / total, places=9)
            mfu = 6 * active * plan["batch"] * 2048 / (row["step_seconds"] * devices * PEAK_B200)
            self.assertAlmostEqual(row["mfu"] / mfu, 1, places=6)
            flops = PEAK_B200 * devices * row["window_days"] * 86400 * row["mfu"]
            # Tokens in closed form unless the bound on tokens per active parameter cut them.
            self.assertLessEqual(row["tokens"], flops / (6 * active) * (1 + 1e-6))
            self.assertAlmostEqual(row["model_flops"] / (6 * active * row["tokens"]), 1, places=6)
            self.assertAlmostEqual(row["tokens_per_active_parameter"] / (row["tokens"] / active), 1, places=6)
            self.assertGreaterEqual(row["memory_with_reserve_bytes"], row["memory_bytes"])
            envelopes.setdefault((row["cluster"]["nodes"], row["window_days"]), []).append(row)
        self.assertEqual(set(envelopes), {(n, d) for n in (8, 16) for d in (10, 20)})
        for rows in envelopes.values():
            self.assertEqual([r["rank"] for r in rows], list(range(1, len(rows) + 1)))
            losses = [r["loss"] for r in rows]
            self.assertEqual(losses, sorted(losses))
            names = [str(sorted(r["architecture"].items())) for r in rows]
            self.assertEqual(len(names), len(set(names)), "an architecture twice")

    def test_file_holds_what_the_json_says(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("python3-h5py is missing")
        with h5py.File(self.out / "results.h5", "r") as file:
            self.assertLessEqual({"study", "architectures", "clusters", "evaluations", "best", "top", "refused"}, set(file))
            step = file["evaluations/step_seconds"]
            self.assertEqual(len(step), self.answer["evaluations"])
            self.assertEqual(str(step.dtype), "float32")
            status = file["evaluations/status"][:]
            self.assertEqual(int((status == 0).sum()), self.answer["feasible"])

            def visit(name, item):
                if isinstance(item, h5py.Dataset):
                    self.assertIn("unit", item.attrs, name)
            for group in ("evaluations", "best", "top"):
                file[group].visititems(visit)

    def test_record_modes_agree(self):
        for record in ("feasible", "best"):
            answer = run_json("sweep", SMALL, "--out", self.dir / record, "--record", record)
            for key in ("points", "feasible", "top"):
                self.assertEqual(answer[key], self.answer[key], f"{record}: {key}")
            # What a memory bound refuses as a whole is not evaluated; rule by rule the rest is the same.
            memory = {"memory", "memory_bound"}
            for a, b in ((answer, self.answer), (self.answer, answer)):
                for reason, count in a["refused"].items():
                    if reason not in memory:
                        self.assertEqual(count, b["refused"].get(reason, 0), f"{record}: {reason}")
            self.assertEqual(sum(answer["refused"].get(r, 0) for r in memory), sum(self.answer["refused"].get(r, 0) for r in memory))

    def test_top_limits_rows_of_each_envelope(self):
        answer = run_json("sweep", SMALL, "--out", self.dir / "top", "--record", "best", "--top", 2)
        self.assertEqual(len(answer["top"]), 8)
        self.assertEqual([r["loss"] for r in answer["top"][:2]], [r["loss"] for r in self.answer["top"][:2]])

    def test_folder_with_results_is_refused_without_a_flag(self):
        before = (self.out / "results.h5").read_bytes()
        done = run("sweep", SMALL, "--out", self.out)
        self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
        self.assertIn("--resume", done.stderr)
        self.assertIn("--redo", done.stderr)
        self.assertEqual((self.out / "results.h5").read_bytes(), before)

    def test_resume_refuses_another_study_and_names_the_way_out(self):
        run_json("sweep", TINY, "--out", self.dir / "out")
        other = self.write("other.toml", TINY.read_text().replace("sequence = 2048", "sequence = 4096"))
        done = run("sweep", other, "--out", self.dir / "out", "--resume")
        self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
        self.assertIn("--redo", done.stderr)

    def test_resume_in_a_missing_or_empty_folder_starts(self):
        (self.dir / "empty").mkdir()
        for name in ("empty", "missing/below"):
            answer = run_json("sweep", TINY, "--out", self.dir / name, "--resume")
            self.assertEqual(answer["units"]["reused"], 0)

    def test_human_output_fits_a_terminal_and_names_units(self):
        done = run("sweep", TINY, "--out", self.dir / "out")
        self.assertEqual(done.returncode, DONE, done.stderr)
        self.assertLessEqual(max(len(line) for line in done.stdout.splitlines()), 100)
        for unit in ("%", "GiB", "results.h5"):
            self.assertIn(unit, done.stdout)

    def test_quiet_says_nothing_on_stderr(self):
        done = run("sweep", TINY, "--out", self.dir / "out", "-q")
        self.assertEqual((done.returncode, done.stderr), (DONE, ""))

    def test_nothing_feasible_exits_3_with_the_closest_miss(self):
        text = TINY.read_text().replace("nodes = [4]", 'nodes = [4]\nmemory_cap = "1 GiB"')
        study = self.write("tight.toml", text)
        done = run("sweep", study, "--out", self.dir / "out")
        self.assertEqual(done.returncode, NOTHING_FEASIBLE, done.stderr)
        said = done.stdout + done.stderr
        self.assertRegex(said, r"(?i)closest miss")
        self.assertRegex(said, r"\d[\d,.]* ?(bytes|GiB)")
        answer = run_json("sweep", study, "--out", self.dir / "json", expect=NOTHING_FEASIBLE)
        self.assertEqual((answer["feasible"], answer["top"]), (0, []))

    def test_estimate_predicts_points_and_bytes(self):
        estimate = run_json("estimate", SMALL)
        self.assertLessEqual({"architectures", "points", "bytes", "core_hours"}, set(estimate))
        self.assertEqual(estimate["architectures"], self.answer["architectures"])
        self.assertEqual(estimate["points"], self.answer["points"])

    def test_threads_from_the_environment(self):
        answer = run_json("sweep", TINY, "--out", self.dir / "out", environment={"SLURM_CPUS_PER_TASK": "2"})
        self.assertEqual(answer["threads"], 2)

    def test_singletons_under_a_scheduler_are_refused(self):
        scheduler = {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_STEP_ID": "0"}
        done = run("sweep", TINY, "--out", self.dir / "out", environment=scheduler)
        self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
        self.assertIn("SLURM_NTASKS", done.stderr)
        self.assertFalse((self.dir / "out").exists())

    def test_a_file_that_is_not_ours_is_left_alone(self):
        out = self.dir / "home"
        out.mkdir()
        (out / "thesis.txt").write_text("years of work")
        run("sweep", TINY, "--out", out, "--redo")
        self.assertEqual((out / "thesis.txt").read_text(), "years of work")


if __name__ == "__main__":
    main()
